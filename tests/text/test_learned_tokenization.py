"""Tokenizations that are learned from the training split only, and how they are stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from regard.config.schema import Experiment
from regard.data import Codec, Example
from regard.errors import UserError
from regard.process_group import SINGLE
from regard.tasks import Pair
from regard.tasks.files import FilesSection, FilesTask
from regard.text import Vocabulary
from regard.text.learned_tokenization import LearnedTokenization
from regard.text.sections import SubwordRegularizationSection, TextSection
from regard.text.subwords import SubwordTokenizer
from regard.text.vocabulary import SPECIAL
from regard.training.trainer import Trainer

PAIRS = [
    Pair(f"{subject[0]} {does[0]} {where[0]}.", f"{subject[1]} {does[1]} {where[1]}.")
    for subject in (
        ("Ein Mann", "A man"),
        ("Eine Frau", "A woman"),
        ("Zwei Hunde", "Two dogs"),
        ("Ein Freund", "A friend"),
        ("Eine Lehrerin", "A teacher"),
        ("Zwei Mauern", "Two walls"),
    )
    for does in (
        ("schläft", "is sleeping"),
        ("rennt schnell", "is running fast"),
        ("steht", "stands"),
        ("singt", "is singing"),
        ("wandert weit", "is wandering far"),
    )
    for where in (
        ("im Wasser", "in the water"),
        ("auf einem Weinberg", "on a vineyard"),
        ("am See", "at the lake"),
        ("am Strand", "on the sand"),
        ("neben einem Stein", "near a stone"),
        ("unter einem Dach", "under a roof"),
    )
]
UNITS = ["characters", "words", "subwords"]


SIZE = 42


def section(**settings: Any) -> TextSection:
    defaults = {"size": SIZE, "coverage": 1.0} if settings.get("unit", "subwords") == "subwords" else {}
    return TextSection.model_validate(defaults | settings)


def tokenization_of(**settings: Any) -> LearnedTokenization:
    return LearnedTokenization.learn(section(**settings), PAIRS)


def codec_of(pairs: list[Pair] = PAIRS, **settings: Any) -> Codec:
    """A codec built as for training."""
    return Codec.build(LearnedTokenization.learn(section(**settings), pairs), pairs)


def ordinary(vocabulary: Vocabulary) -> set[str]:
    assert vocabulary.tokens[:4] == SPECIAL
    return set(vocabulary.tokens[4:])


# --- Learning -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_every_training_pair_is_decoded_from_its_ids(unit: str, joint: bool, lowercase: bool):
    codec = codec_of(unit=unit, joint=joint, lowercase=lowercase)
    for pair in PAIRS:
        example = codec.example(pair)
        assert Vocabulary.unknown not in (*example.source, *example.target)
        assert codec.text(example.target) == (pair.target.lower() if lowercase else pair.target)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_case_is_distinguished_unless_lowercase_is_set(unit: str, joint: bool):
    kept, lowered = (codec_of(unit=unit, joint=joint, lowercase=lowercase) for lowercase in (False, True))
    assert kept.source("Ein Mann") != kept.source("ein mann")
    assert lowered.source("EIN Mann") == lowered.source("ein mann")
    assert lowered.prefix("A MAN") == lowered.prefix("a man")
    for vocabulary in (lowered.source_vocabulary, lowered.target_vocabulary):
        assert all(token == token.lower() for token in ordinary(vocabulary))


@pytest.mark.parametrize("unit", UNITS)
def test_joint_is_one_vocabulary_for_both_sides(unit: str):
    codec = codec_of(unit=unit, joint=True)
    assert codec.source_vocabulary is codec.target_vocabulary
    for token in tokenization_of(unit=unit).source_tokens(PAIRS[0].source):
        assert token in codec.target_vocabulary


@pytest.mark.parametrize("unit", UNITS)
def test_separate_sides_have_separate_vocabularies(unit: str):
    codec = codec_of(unit=unit, joint=False)
    assert codec.source_vocabulary != codec.target_vocabulary
    assert "ä" not in "".join(ordinary(codec.target_vocabulary))
    assert "ä" in "".join(ordinary(codec.source_vocabulary))
    if unit == "words":
        assert ordinary(codec.target_vocabulary) & ordinary(codec.source_vocabulary) == {"￭."}


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_tokens_without_training_examples_are_unknown(unit: str, joint: bool):
    codec = codec_of(unit=unit, joint=joint)
    unseen = Pair("Ein Ωψ schläft.", "A Ωψ is sleeping.")
    example = codec.example(unseen)
    assert Vocabulary.unknown in example.source
    assert Vocabulary.unknown in example.target
    assert not any("Ω" in token or "ψ" in token for token in codec.source_vocabulary.tokens)
    assert codec.source("Ein")[0] == example.source[0] != Vocabulary.unknown


def test_the_vocabulary_is_that_of_the_training_split(tmp_path: Path):
    for split, word in (("train", "Hund"), ("validation", "Katze")):
        (tmp_path / f"{split}.tsv").write_text(f"Ein {word} schläft.\tIt sleeps.\n", encoding="utf-8")
    names = {split: str(tmp_path / f"{split}.tsv") for split in ("train", "validation")}
    task = FilesTask(FilesSection.model_validate(names | {"text": {"unit": "words"}}))
    codec = Codec.build(task.learn_tokenization(task.dataset.splits()["train"]), task.dataset.splits()["train"])
    assert "Hund" in codec.source_vocabulary
    (pair,) = task.dataset.splits()["validation"]
    assert codec.source_tokens(pair.source) == ["Ein", "<unknown>", "schläft", "￭.", "<end>"]


RARE = [Pair("a a a b", "x x"), Pair("a b c", "x y")]


@pytest.mark.parametrize(
    ("settings", "sources", "targets"),
    [
        ({"joint": False}, "abc", "xy"),
        ({"joint": False, "min_frequency": 2}, "ab", "x"),
        ({"joint": False, "min_frequency": 4}, "a", ""),
        ({"joint": True, "min_frequency": 3}, "ax", "ax"),
    ],
)
@pytest.mark.parametrize("unit", ["words", "characters"])
def test_rarer_words_are_unknown(unit: str, settings: dict[str, Any], sources: str, targets: str):
    codec = codec_of(RARE, unit=unit, **settings)
    for vocabulary, expected in ((codec.source_vocabulary, sources), (codec.target_vocabulary, targets)):
        assert ordinary(vocabulary) - {" "} == set(expected)


def test_words_that_are_rare_on_each_side_count_together_when_joint():
    pairs = [Pair("b Paris", "x Paris")]
    assert ordinary(codec_of(pairs, unit="words", min_frequency=2).source_vocabulary) == {"Paris"}
    assert ordinary(codec_of(pairs, unit="words", min_frequency=2, joint=False).source_vocabulary) == set()


def test_a_vocabulary_has_the_most_frequent_words_up_to_its_size():
    codec = codec_of(RARE, unit="words", joint=False, size=2)
    assert codec.source_vocabulary.tokens[4:] == ("a", "b")


@pytest.mark.parametrize("joint", [False, True])
def test_a_target_vocabulary_has_a_maximum_size_as_well(joint: bool):
    assert len(ordinary(codec_of(unit="words", joint=joint, size=5).target_vocabulary)) == 5


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
def test_all_subwords_have_ids_so_that_any_segmentation_can_be_encoded(algorithm: str, joint: bool):
    codec = codec_of(algorithm=algorithm, joint=joint)
    tokenization = codec.tokenization
    assert isinstance(tokenization, LearnedTokenization)
    for side, vocabulary in (
        (tokenization.source, codec.source_vocabulary),
        (tokenization.target, codec.target_vocabulary),
    ):
        assert isinstance(side, SubwordTokenizer)
        assert vocabulary.tokens[4:] == tuple(side.pieces)
        assert len(side.pieces) == SIZE - 1  # SentencePiece counts its own unknown token
    assert (tokenization.source is tokenization.target) == joint


def test_the_algorithms_learn_different_subwords():
    assert tokenization_of(algorithm="bpe").files() != tokenization_of(algorithm="unigram").files()


@pytest.mark.parametrize("limit", ["MAX_PAIRS", "MAX_CHARACTERS"])
def test_a_large_text_is_sampled_evenly(monkeypatch: pytest.MonkeyPatch, limit: str):
    learned_from: list[str] = []
    learn = SubwordTokenizer.learn

    def recording_learn(texts: Any, *arguments: Any, **options: Any) -> SubwordTokenizer:
        learned_from.extend(texts)
        return learn(learned_from, *arguments, **options)

    characters = sum(len(pair.source) + len(pair.target) for pair in PAIRS)
    most = {"MAX_PAIRS": -(-len(PAIRS) // 3), "MAX_CHARACTERS": -(-characters // 3)}
    monkeypatch.setattr(f"regard.text.learned_tokenization.{limit}", most[limit])
    monkeypatch.setattr(SubwordTokenizer, "learn", recording_learn)
    tokenization_of()
    assert learned_from == [text for pair in PAIRS[::3] for text in (pair.source, pair.target)]


@pytest.mark.parametrize("unit", ["characters", "words", "subwords"])
def test_surrounding_white_space_is_ignored(unit: str):
    codec = codec_of(unit=unit)
    assert codec.example(Pair(" \u00a0der Hund\t", "\tthe dog ")) == codec.example(Pair("der Hund", "the dog"))


@pytest.mark.parametrize("joint", [True, False])
def test_a_size_that_the_texts_do_not_allow_is_reported(joint: bool):
    with pytest.raises(
        UserError, match=r"^data\.text: 9000 subwords cannot be learned .*make data\.text\.size smaller"
    ):
        tokenization_of(size=9000, joint=joint)


# --- Word starts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["characters", "words"])
def test_each_character_or_word_is_a_word_start(unit: str):
    tokenization = tokenization_of(unit=unit)
    assert tokenization.source_starts(["a", "b"]) == tokenization.target_starts(["a", "b"]) == [True, True]


def test_subwords_start_a_word_where_a_space_was():
    tokenization = tokenization_of(joint=False)
    for tokens, starts in (
        (tokenization.source_tokens("Ein Weinberg"), tokenization.source_starts),
        (tokenization.prefix_tokens("A vineyard"), tokenization.target_starts),
    ):
        assert len(tokens) > 2
        assert starts(tokens) == [token.startswith("▁") for token in tokens]
        assert sum(starts(tokens)) == 2


# --- Storing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_a_tokenization_is_restored_from_its_files(unit: str, joint: bool, algorithm: str):
    tokenization = tokenization_of(unit=unit, joint=joint, algorithm=algorithm)
    files = tokenization.files()
    names = {"subwords.model"} if joint else {"source.model", "target.model"}
    assert files.keys() == (names if unit == "subwords" else set())
    restored = LearnedTokenization.load(tokenization.settings, lambda name, parse: parse(files[name]))
    for pair in PAIRS:
        source, target = tokenization.source_tokens(pair.source), tokenization.target_tokens(pair)
        assert restored.source_tokens(pair.source) == source
        assert restored.target_tokens(pair) == target
        assert restored.target_text(target) == pair.target
        assert restored.source_starts(source) == tokenization.source_starts(source)
    assert restored.files() == files


def test_each_side_uses_its_own_model_after_restoring():
    tokenization = tokenization_of(joint=False)
    restored = LearnedTokenization.load(tokenization.settings, lambda name, parse: parse(tokenization.files()[name]))
    text = "Ein Weinberg schläft."
    assert restored.source_tokens(text) == tokenization.source_tokens(text)
    assert restored.prefix_tokens(text) == tokenization.prefix_tokens(text) != tokenization.source_tokens(text)


# --- Subword regularization ------------------------------------------------------------------------------


VARIED = {"size": 60, "regularization": {"best": 16, "alpha": 0.1}}


def test_sampled_segmentations_spell_the_same_text():
    codec = codec_of(**VARIED)
    assert codec.tokenization.can_resample
    example = codec.example(PAIRS[4])
    random = Random(1)
    segmentations = {codec.resample(example, random) for _ in range(30)}
    assert len(segmentations) > 5
    assert len({segmentation.source for segmentation in segmentations}) > 1
    assert len({segmentation.target for segmentation in segmentations}) > 1
    for segmentation in segmentations:
        assert Vocabulary.unknown not in (*segmentation.source, *segmentation.target)
        assert segmentation.source[-1] == segmentation.target[-1] == Vocabulary.end
        assert segmentation.target[0] == example.target[0]
        assert codec.text(segmentation.target) == PAIRS[4].target
        assert codec.text(segmentation.source) == PAIRS[4].source  # joint: both sides have these tokens


@pytest.mark.parametrize("best", [1, 16])
def test_encoding_always_uses_the_most_likely_segmentation(best: int):
    """Validation, test and translation are not random."""
    plain, varied = codec_of(), codec_of(regularization={"best": best, "alpha": 0.1})
    for pair in PAIRS:
        assert varied.example(pair) == varied.example(pair) == plain.example(pair)


@pytest.mark.parametrize("settings", [{}, {"unit": "words"}, {"unit": "characters"}])
def test_one_segmentation_gives_no_variation(settings: dict[str, Any]):
    codec = codec_of(**settings)
    assert not codec.tokenization.can_resample
    assert [codec.resample(codec.example(pair), Random(1)) for pair in PAIRS] == codec.examples(PAIRS)


def test_a_pair_with_an_unknown_token_is_not_resampled():
    codec = codec_of(**VARIED)
    for pair in (Pair("Ein Ω schläft im Wasser.", PAIRS[0].target), Pair(PAIRS[0].source, "A Ω is sleeping.")):
        example = codec.example(pair)
        assert {codec.resample(example, Random(seed)) for seed in range(20)} == {example}


def rows_of(trainer: Trainer, step: int) -> list[Example]:
    """The first batch, with the segmentations of a step."""
    trainer.batches.numbers = lambda step: range(1)  # type: ignore[method-assign]
    return trainer.batches.own(step, SINGLE)[0][0]


def regularized(corpus: Path, **settings: Any) -> Experiment:
    names = {split: str(corpus / split) for split in ("train", "validation")}
    sizes = {"embedding": 4, "size": 4}
    return Experiment.model_validate(
        {
            "data": FilesSection.model_validate(names | {"text": {"size": 60, "regularization": {"best": 8}}}),
            "model": {"encoder": sizes, "decoder": sizes},
            "training": settings,
        }
    )


def test_segmentations_depend_only_on_the_seed_and_the_step(corpus: Path, new_trainer: Callable[..., Trainer]):
    trainer = new_trainer(regularized(corpus))
    first, second = rows_of(trainer, 0), rows_of(trainer, 1)
    assert first != second
    assert [trainer.codec.text(row.target) for row in first] == [trainer.codec.text(row.target) for row in second]
    assert rows_of(trainer, 0) == first
    trainer.batches.batches.seed = 2
    assert rows_of(trainer, 0) != first


def test_segmentation_sampling_needs_unigram_subwords():
    for settings in ({"unit": "words"}, {"unit": "characters"}, {"algorithm": "bpe"}):
        with pytest.raises(ValueError, match="4 segmentations of a text need unigram subwords"):
            TextSection.model_validate(settings | {"regularization": {"best": 4}})
        assert TextSection.model_validate(settings | {"regularization": {"best": 1}}).regularization.best == 1
    assert TextSection(regularization=SubwordRegularizationSection(best=4)).regularization.best == 4


def test_the_british_spelling_of_older_experiments_is_accepted():
    old = TextSection.model_validate({"regularisation": {"best": 4, "alpha": 0.3}})
    assert old == TextSection.model_validate({"regularization": {"best": 4, "alpha": 0.3}})
    assert "regularization" in old.model_dump()
    assert "regularisation" not in old.model_dump()
    with pytest.raises(ValueError, match="regularisation\n  Extra inputs"):
        TextSection.model_validate({"regularisation": {"best": 4}, "regularization": {"best": 8}})
