"""The task `lookahead`: a cue, and nothing else, determines the translation of an ambiguous noun."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from regard.config import loading
from regard.data import Codec
from regard.errors import UserError
from regard.tasks import lookahead_lexicon as lexicon
from regard.tasks.lookahead import LookaheadDataset, LookaheadSection, LookaheadTask
from regard.text import Pair

SENSES = {
    cue.english: (noun.english, sense.german)
    for noun in lexicon.AMBIGUOUS
    for sense in noun.senses
    for cue in sense.cues
}
TRANSLATIONS = {noun.english: {sense.german for sense in noun.senses} for noun in lexicon.AMBIGUOUS}
CUES = tuple(cue for noun in lexicon.AMBIGUOUS for sense in noun.senses for cue in sense.cues)
PLAIN = (*lexicon.SUBJECTS, *lexicon.VERBS, *lexicon.ADJECTIVES, *lexicon.NEUTRAL_NOUNS, *CUES)
MARKS = {",": ",", "and": "und", ".": "."}
seeds = st.integers(0, 2**32)


def generate(seed: int, **settings: int) -> Pair:
    return LookaheadDataset(LookaheadSection(**settings)).generate(Random(seed))


def translate(source: str) -> str:
    """The translation by rule: the meaning of an ambiguous noun is looked up with the cue that follows it."""
    words = source.split()
    senses = dict(SENSES[word] for word in words if word in SENSES)
    return " ".join((dict(PLAIN) | MARKS | senses)[word] for word in words)


def test_sentences_checked_by_hand():
    assert generate(2, ambiguous=1, max_distance=1) == Pair(
        "tourists describe new bats , bags and owls .",
        "Touristen beschreiben neue Fledermäuse , Taschen und Eulen .",
        frozenset((position, position) for position in range(9)),
    )
    assert translate("we see banks , cars and rivers .") == "wir sehen Ufer , Autos und Flüsse ."
    assert translate("we see banks , cars and streets .") == "wir sehen Banken , Autos und Straßen ."


@given(seed=seeds, ambiguous=st.integers(1, 8), distances=st.tuples(st.integers(0, 9), st.integers(0, 9)).map(sorted))
def test_a_sentence_has_its_nouns_in_order_and_one_cue_for_each_ambiguous_noun(seed, ambiguous, distances):
    shortest, longest = distances
    pair = generate(seed, ambiguous=ambiguous, min_distance=shortest, max_distance=longest)
    neutral = {word.english for word in lexicon.NEUTRAL_NOUNS}
    kinds = "".join(
        "a" if word in TRANSLATIONS else "c" if word in SENSES else "n" if word in neutral else ""
        for word in pair.source.split()
    )
    distance = kinds.count("n")
    assert shortest <= distance <= longest
    assert kinds == "a" * ambiguous + "n" * distance + "c" * ambiguous
    nouns = [word for word in pair.source.split() if word in TRANSLATIONS]
    assert sorted(nouns) == sorted(SENSES[word][0] for word in pair.source.split() if word in SENSES)
    assert len(set(nouns)) == ambiguous


@given(seed=seeds, ambiguous=st.integers(1, 4))
def test_words_are_translated_one_by_one_and_ambiguous_ones_by_their_cue(seed: int, ambiguous: int):
    pair = generate(seed, ambiguous=ambiguous)
    assert pair.target == translate(pair.source)
    length = len(pair.source.split())
    assert pair.alignment == {(position, position) for position in range(length)}
    assert len(pair.target.split()) == length


@given(seed=seeds)
def test_another_cue_changes_the_translation_of_its_noun_only(seed: int):
    pair = generate(seed, ambiguous=1)
    (cue,) = (word for word in pair.source.split() if word in SENSES)
    noun, german = SENSES[cue]
    for other in (word.english for word in CUES if SENSES[word.english][0] == noun):
        changed = pair.source.replace(cue, other)
        differences = [
            before
            for before, after in zip(pair.target.split(), translate(changed).split(), strict=True)
            if before != after and before != dict(PLAIN)[cue]
        ]
        assert differences == ([] if SENSES[other][1] == german else [german])


def test_nothing_before_the_cues_tells_the_sense():
    """For each noun, both meanings are equally frequent: with any verb, any adjective, first or second."""
    counts: Counter[tuple[str, ...]] = Counter()
    for pair in LookaheadDataset(LookaheadSection()).pairs("train"):
        source, target = pair.source.split(), pair.target.split()
        for position, word in enumerate(source):
            if word in TRANSLATIONS:
                first = target[position] == lexicon.AMBIGUOUS[list(TRANSLATIONS).index(word)].senses[0].german
                for context in (source[0], source[1], source[position - 1], str(position == 2), word):
                    counts[context, str(first)] += 1
    for context, _ in counts:
        shares = counts[context, "True"], counts[context, "False"]
        if sum(shares) > 1000:
            assert 0.45 < shares[0] / sum(shares) < 0.55, context


def test_cues_are_in_any_order():
    pairs = LookaheadDataset(LookaheadSection(ambiguous=2)).pairs("test")
    same = 0
    for pair in pairs:
        words = pair.source.split()
        nouns = [word for word in words if word in TRANSLATIONS]
        same += nouns == [SENSES[word][0] for word in words if word in SENSES]
    assert 0.45 < same / len(pairs) < 0.55


def test_every_word_but_the_ambiguous_ones_has_one_translation():
    english = [word.english for word in PLAIN] + list(TRANSLATIONS)
    assert len(set(english)) == len(english)
    german = [word.german for word in PLAIN] + [sense for senses in TRANSLATIONS.values() for sense in senses]
    assert len(set(german)) == len(german)


def test_all_words_are_frequent_in_training():
    pairs = LookaheadDataset(LookaheadSection()).pairs("train")
    counts = Counter(word for pair in pairs for word in f"{pair.source} {pair.target}".split())
    english, german = {*dict(PLAIN), *TRANSLATIONS}, {*dict(PLAIN).values()}.union(*TRANSLATIONS.values())
    assert counts.keys() == english | german | {*MARKS, "und"}
    assert min(counts.values()) > 300


def test_an_unknown_word_is_refused():
    task = LookaheadTask(LookaheadSection(train=500))
    codec = Codec.build(task.tokenization, task.dataset.pairs("train"))
    assert codec.source("we see banks and rivers .")
    with pytest.raises(UserError, match="token 3, 'bänke', is not among the"):
        codec.source("we see bänke and rivers .")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("ambiguous=0", r"data\.ambiguous.* 1\b"),
        ("ambiguous=9", r"data\.ambiguous.* 8\b"),
        ("min_distance=-1", r"data\.min_distance.* 0\b"),
        ("max_distance=101", r"data\.max_distance.* 100\b"),
        ("min_distance=5", r"data\.min_distance.*5 is more than max_distance, 4; make it smaller"),
    ],
)
def test_settings_out_of_bounds_are_reported_with_key_and_bound(setting: str, message: str):
    with pytest.raises(UserError, match=message):
        loading.load_experiment("lookahead", [f"data.{setting}"])
    with pytest.raises(ValidationError):
        LookaheadSection(**{setting.split("=")[0]: int(setting.split("=")[1])})
