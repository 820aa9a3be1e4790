"""Translating, scoring and inspecting with a finished run."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import Translation, Translator
from regard.config.schema import Experiment
from regard.data import Codec
from regard.errors import UserError
from regard.inference.outputs import copied_words
from regard.inference.translation import mean_attention
from regard.nn.build import build_model
from regard.runs import MODEL, Run, named_weights
from regard.search import Hypothesis, SearchOptions, SearchStopped
from regard.search import search as run_search
from regard.tasks import Pair
from regard.tasks.files import FilesSection, FilesTask
from regard.text import Vocabulary

TEXTS = ["abc", "e", "", "ddddd", "abcde", "ba", "", "e", "cabba"]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained)


def is_same(one: Translation, other: Translation) -> bool:
    return (
        (one.text, one.tokens, one.source_tokens, one.finished)
        == (other.text, other.tokens, other.source_tokens, other.finished)
        and one.score == pytest.approx(other.score, abs=1e-5)
        and one.attention.shape == other.attention.shape
        and torch.allclose(one.attention, other.attention, atol=1e-5)
    )


def test_the_order_is_kept_and_an_empty_text_has_an_empty_translation(translator: Translator):
    assert [translation.text for translation in translator.translate(TEXTS)] == TEXTS
    assert translator.translate([]) == []
    (empty,) = translator.translate([""])
    assert (empty.text, empty.tokens, empty.source_tokens, empty.score) == ("", (), (), 0.0)
    assert empty.attention.shape == (0, 0)
    assert empty.finished


def test_a_text_without_tokens_is_empty_too(tmp_path: Path, new_callback: Callable[..., object]):
    from regard.config import loading
    from regard.training.train_run import train_run

    few = ["data.train=2000", "data.validation=5", "data.test=5", "training.validate_every=1"]
    train_run(loading.load_experiment("clauses", few), tmp_path / "run", new_callback(stop_after=1))
    translator = regard.load(tmp_path / "run")
    assert [each.tokens for each in translator.translate(["  ", "", "\u3000"])] == [(), (), ()]
    assert [each.log_probabilities for each in translator.score([("  ", ""), ("", "")])] == [(), ()]
    assert translator.tree(" ", SearchOptions(beam=2)) == []
    with pytest.raises(UserError, match="its source is empty"):
        translator.score([("  ", "the dog")])


def test_a_translation_has_its_tokens_and_their_attention(translator: Translator):
    for text, translation in zip(TEXTS, translator.translate(TEXTS), strict=True):
        if not text:
            continue
        assert translation.tokens == (*text, "<end>")
        assert translation.source_tokens == (*text, "<end>")
        assert translation.attention.shape == (len(text) + 1, len(text) + 1)
        assert torch.allclose(translation.attention.sum(-1), torch.ones(len(text) + 1), atol=1e-5)
        assert translation.finished
        assert -1 < translation.score < 0


def test_attention_of_a_copy_is_a_diagonal(translator: Translator):
    (translation,) = translator.translate(["abcde"])
    assert translation.attention[:5].argmax(-1).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("settings", [(), ("decoding.batch_size=2",)])
def test_translations_do_not_depend_on_the_rest_of_the_batch(
    translator: Translator, trained_brief: Callable[..., Path], settings: tuple[str, ...]
):
    chosen_translator = regard.load(trained_brief(*settings)) if settings else translator
    texts = [text for text in TEXTS if text] * 3
    together = chosen_translator.translate(texts)
    assert all(
        is_same(together[position], chosen_translator.translate([text])[0]) for position, text in enumerate(texts)
    )
    assert all(
        is_same(one, other) for one, other in zip(chosen_translator.translate(texts[::-1]), together[::-1], strict=True)
    )


def test_loading_twice_gives_bit_identical_translations(trained: Path, translator: Translator):
    for one, other in zip(regard.load(str(trained)).translate(TEXTS), translator.translate(TEXTS), strict=True):
        assert one.score == other.score
        assert torch.equal(one.attention, other.attention)
        assert one.text == other.text


def test_translating_does_not_change_the_global_random_state_or_gradient_mode(trained: Path):
    before = torch.get_rng_state()
    translator = regard.load(trained)
    (translation,) = translator.translate(["abc"])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    assert not translation.attention.requires_grad
    assert not translator.model.training


def test_a_score_is_the_log_probability_of_the_tokens(translator: Translator):
    (translation,) = translator.translate(["bad"])
    ids = [*translator.codec.target_vocabulary.to_ids("bad"), 2]
    source = torch.tensor([translator.encode("bad").ids])
    state = translator.model.start(source, torch.ones_like(source, dtype=torch.bool))
    logits, _ = translator.model.decoder.teacher_forced(torch.tensor([[1, *ids[:-1]]]), state)
    log_probs = logits.log_softmax(-1)[0, range(4), ids]
    assert translation.score == pytest.approx(log_probs.sum().item(), abs=1e-5)


@pytest.mark.parametrize(("text", "message"), [("abx", "not trained on the character 'x'"), ("a b", "' '")])
def test_a_text_with_unknown_characters_is_refused(translator: Translator, text: str, message: str):
    with pytest.raises(UserError, match=message):
        translator.translate(["abc", text])
    with pytest.raises(UserError, match=message):
        translator.encode(text)


@pytest.mark.parametrize("kind", ["learned", "one-hot"])
def test_a_text_longer_than_the_positions_is_refused(trained_brief: Callable[..., Path], kind: str):
    translator = regard.load(trained_brief(f"model.encoder.positions={{kind: {kind}, longest: 7}}"))
    assert len(translator.encode("abcdea").ids) == 7
    assert translator.translate(["abcdea"])
    with pytest.raises(UserError, match="this text has 8 tokens, <end> included; this model has 7 positions"):
        translator.translate(["abcdeab"])


@pytest.mark.parametrize("kind", ["learned", "one-hot"])
def test_an_output_is_at_most_as_long_as_the_decoders_positions(trained_brief: Callable[..., Path], kind: str):
    translator = regard.load(trained_brief(f"model.decoder.positions={{kind: {kind}, longest: 6}}"))
    for translation in translator.translate(["abcdeabcde", "a"]):
        assert len(translation.tokens) <= 6
        assert translation.finished == (translation.tokens[-1] == "<end>")


def max_output_lengths(
    translator: Translator, search: SearchOptions, monkeypatch: pytest.MonkeyPatch, *texts: str
) -> list[int]:
    """The maximum output lengths passed to the search, the shortest text first."""
    max_lengths: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            "regard.inference.translator.run_search",
            lambda *a: (max_lengths.extend(a[1].max_lengths.tolist()), run_search(*a))[1],
        )
        translator.translate(texts, search)
    return max_lengths


def test_the_maximum_length_grows_with_the_source(trained_brief: Callable[..., Path], monkeypatch: pytest.MonkeyPatch):
    translator = regard.load(trained_brief("decoding.length_factor=1.5", "decoding.length_extra=2"))
    texts = ("abcde", "a")
    assert max_output_lengths(translator, SearchOptions(), monkeypatch, *texts) == [
        5,
        11,
    ]  # 1.5 · 2 + 2 and 1.5 · 6 + 2
    assert max_output_lengths(translator, SearchOptions(prefix="bad"), monkeypatch, *texts) == [
        8,
        14,
    ]  # the prefix does not count
    assert max_output_lengths(translator, SearchOptions(min_length=9), monkeypatch, *texts) == [10, 11]
    for search in (SearchOptions(), SearchOptions(beam=3, n_best=3)):
        for translation, limit in zip(translator.translate(["a", "abcde"], search), (5, 11), strict=True):
            for each in translation.n_best:
                assert len(each.tokens) == limit if not each.finished else len(each.tokens) <= limit


def test_heads_and_layers_have_axes_before_output_and_source(trained_brief: Callable[..., Path]):
    (translation,) = regard.load(trained_brief(*TRANSFORMER)).translate(["abc"])
    assert translation.attention.shape == (2, 2, len(translation.tokens), 4)


# --- every search ----------------------------------------------------------------------------------------

SEARCHES = {
    "greedy": SearchOptions(),
    "beam": SearchOptions(beam=5, n_best=3, length_penalty=0.6),
    "sampling": SearchOptions(sample=True, n_best=3, temperature=1.5, top_k=6, top_p=0.95, seed=7),
    "rules": SearchOptions(beam=3, n_best=2, prefix="e", min_length=3, block_ngrams=2, repetition_penalty=1.5),
}
TRANSFORMER = (
    *("model.encoder.kind=self-attention", "model.decoder.kind=transformer", "model.decoder.layers=2"),
    *("model.attention.kind=multi-head", "model.attention.heads=2"),
)
KINDS = {
    "recurrent": (),
    "before": ("model.decoder.wiring=before", "model.decoder.cell=lstm", "model.attention.kind=additive"),
    "transformer": TRANSFORMER,
}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS.keys())
def half_trained(request: pytest.FixtureRequest, trained_brief: Callable[..., Path]) -> Translator:
    """A half-trained model, which has many plausible hypotheses."""
    return regard.load(trained_brief("training.epochs=8", "model.dropout=0", *request.param))


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_no_search_depends_on_the_batch_or_its_order(half_trained: Translator, search: SearchOptions):
    texts = [text for text in TEXTS if text] * 9 + ["cabbage"[:length] for length in (1, 2, 3, 4, 5)]
    texts = [text.replace("g", "d") for text in texts]
    alone = {text: half_trained.translate([text], search)[0] for text in set(texts)}
    for order in (texts, texts[::-1]):
        for text, translation in zip(order, half_trained.translate(order, search), strict=True):
            for one, other in zip(translation.n_best, alone[text].n_best, strict=True):
                assert is_same(one, other)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_score_equals_that_of_rescoring(half_trained: Translator, search: SearchOptions):
    for text, translation in zip(TEXTS, half_trained.translate(TEXTS, search), strict=True):
        for each in translation.n_best:
            (again,) = half_trained.score([(text, each.text)])
            if each.finished:
                assert again.log_probabilities == pytest.approx(each.log_probabilities, abs=1e-5)
                assert again.log_probability == pytest.approx(each.score, abs=1e-5)
            else:  # truncated: the end is missing
                assert again.log_probabilities[:-1] == pytest.approx(each.log_probabilities, abs=1e-5)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_the_n_best_list_has_distinct_texts(half_trained: Translator, search: SearchOptions):
    for translation in half_trained.translate(TEXTS, search):
        texts = [each.text for each in translation.n_best]
        assert len(set(texts)) == len(texts) <= search.n_best
        assert all(not each.next_best for each in translation.next_best)


def test_texts_that_differ_only_in_spaces_are_listed_once(tmp_path: Path, new_callback: Callable[..., object]):
    from regard.config import loading
    from regard.training.train_run import train_run

    few = ["data.train=2000", "data.validation=5", "data.test=5", "training.epochs=1", "training.validate_every=1"]
    train_run(loading.load_experiment("spaces", few), tmp_path / "run", new_callback(stop_after=1))
    translator = regard.load(tmp_path / "run")
    blank, letter = translator.codec.target_vocabulary.to_ids(["<blank>", "a"])
    with torch.no_grad():
        for token, more in ((blank, 9), (letter, 8), (Vocabulary.end, 9)):  # it generates little else
            translator.model.decoder.readout.output_layer.bias[token] += more
    search = SearchOptions(beam=8, n_best=8)
    (translation,) = translator.translate(["a b"], search)
    assert [(each.text, each.tokens) for each in translation.n_best] == [("", ("<end>",)), ("a", ("a", "<end>"))]
    finished = [node for node in translator.tree("a b", search) if node.fate == "finished"]
    ranks = [node.rank for node in sorted(finished, key=lambda node: -node.score)]
    assert [rank for rank in ranks if rank] == [1, 2]
    assert ranks[1] is None  # `<blank> <end>` is second and has the same text as the first


def test_hypotheses_are_sorted_and_beams_score_at_least_as_well_as_greedy(half_trained: Translator):
    texts = [text for text in TEXTS if text]
    greedy = half_trained.translate(texts)
    beam = half_trained.translate(texts, SearchOptions(beam=20, n_best=20))
    for one, other in zip(greedy, beam, strict=True):
        scores = [each.score for each in other.n_best if each.finished]
        assert scores == sorted(scores, reverse=True)
        if one.finished:
            assert other.score >= one.score - 1e-5


def test_outputs_begin_with_the_prefix(half_trained: Translator):
    for prefix in ("e", "ed", "abcdeabc"):
        for translation in half_trained.translate(TEXTS, SearchOptions(beam=3, n_best=2, prefix=prefix)):
            for each in translation.n_best:
                assert each.text.startswith(prefix) or not each.tokens


def test_samples_depend_only_on_the_seed(half_trained: Translator):
    texts = [text for text in TEXTS if text]

    def sample(seed: int, n_best: int = 1) -> list[str]:
        search = SearchOptions(sample=True, seed=seed, n_best=n_best, temperature=2.0)
        return [
            "/".join(each.text for each in translation.n_best) for translation in half_trained.translate(texts, search)
        ]

    state = torch.get_rng_state()
    assert sample(1) == sample(1)
    assert sample(1) != sample(2)
    assert torch.equal(torch.get_rng_state(), state)
    for one, several in zip(sample(1), sample(1, n_best=5), strict=True):
        assert one in several.split("/")  # more draws do not change the first


@pytest.mark.parametrize("rule", ["prefix", "min_length"])
def test_a_prefix_or_minimum_length_beyond_the_decoders_positions_is_refused(
    trained_brief: Callable[..., Path], rule: str
):
    translator = regard.load(trained_brief("model.decoder.positions={kind: learned, longest: 6}"))
    fits, too_much = {"prefix": ("abcde", "abcdea"), "min_length": (5, 6)}[rule]
    assert translator.translate(["a"], SearchOptions(**{rule: fits}))
    with pytest.raises(UserError, match="has 7 tokens, <end> included; this model has 6 positions"):
        translator.translate(["a"], SearchOptions(**{rule: too_much}))
    with pytest.raises(UserError, match="this target has 7 tokens"):
        translator.score([("a", "abcdea")])


def test_a_prefix_with_unknown_tokens_is_refused(translator: Translator):
    with pytest.raises(UserError, match="the prefix 'aXb': token 2, 'X', is not among the 5"):
        translator.translate([], SearchOptions(prefix="aXb"))
    with pytest.raises(UserError, match="the prefix 'a bc': token 2, 'bc', is not among the 5"):
        translator.translate([], SearchOptions(prefix=("a", "bc")))
    for special in ("<pad>", "<begin>", "\ud800"):
        with pytest.raises(UserError, match=r"token 1, .* is not among the 5"):
            translator.translate([], SearchOptions(prefix=(special,)))
    with pytest.raises(UserError, match="token 1, '<end>', is not among the 5"):
        translator.translate([], SearchOptions(prefix=("<end>", "a")))


def test_any_prefix_of_an_output_can_be_forced_again(half_trained: Translator):
    for search in (SearchOptions(), SearchOptions(beam=4, n_best=2)):
        for text, translation in zip(TEXTS, half_trained.translate(TEXTS, search), strict=True):
            for each in translation.n_best:
                for position in range(len(each.tokens) + 1):
                    (again,) = half_trained.translate([text], SearchOptions(prefix=each.tokens[:position]))
                    assert again.tokens[:position] == each.tokens[:position]
                    assert again.log_probabilities[:position] == pytest.approx(
                        each.log_probabilities[:position], abs=1e-5
                    )
                if each.finished:
                    assert again.tokens == each.tokens, "its end can be forced, too"


def test_a_prefix_of_subwords_is_forced_as_given_and_not_tokenized_again(tmp_path: Path):
    pieces = {"unit": "subwords", "size": 24, "coverage": 1.0}
    translator = untrained_translator(tmp_path / "run", pieces, {})
    tokens = ("▁", "d", "o", "g")
    assert translator.codec.prefix("dog") != translator.codec.prefix(tokens)
    (translation,) = translator.translate(["der Hund"], SearchOptions(prefix=tokens))
    assert translation.tokens[:4] == tokens


def test_unknown_can_be_forced_by_a_prefix(tmp_path: Path):
    translator = untrained_translator(tmp_path / "run", {"unit": "words"}, {}, copy_unknown=True)
    (translation,) = translator.translate(["der Zebrafink singt ."], SearchOptions(prefix=("<unknown>", "dog")))
    assert translation.tokens[:2] == ("<unknown>", "dog")


# --- alternatives ----------------------------------------------------------------------------------------


def test_the_first_alternative_is_the_greedy_token(half_trained: Translator):
    translations = half_trained.translate(TEXTS)
    for translation, rows in zip(translations, half_trained.alternatives(TEXTS, translations, 3), strict=True):
        assert [row[0].token for row in rows] == list(translation.tokens)
        assert [row[0].log_probability for row in rows] == pytest.approx(translation.log_probabilities, abs=1e-5)
        assert all(len(row) == 3 for row in rows)
        assert all(one.log_probability >= other.log_probability for row in rows for one, other in pairwise(row))


def test_an_alternative_has_the_log_probability_that_it_has_when_forced(half_trained: Translator):
    (translation,) = half_trained.translate(["cabba"], SearchOptions(beam=3))
    (rows,) = half_trained.alternatives(["cabba"], [translation], 99)
    for position, row in enumerate(rows):
        assert {each.token for each in row} == {*"abcde", "<end>"}, "all but banned tokens"
        assert math.fsum(math.exp(each.log_probability) for each in row) <= 1 + 1e-6
        for each in row:
            (forced,) = half_trained.translate(
                ["cabba"], SearchOptions(prefix=(*translation.tokens[:position], each.token))
            )
            assert forced.log_probabilities[position] == pytest.approx(each.log_probability, abs=1e-5)


def test_unknown_is_an_alternative_only_with_copy_unknown(tmp_path: Path):
    for copy_unknown in (True, False):
        translator = untrained_translator(
            tmp_path / str(copy_unknown), {"unit": "words"}, {}, copy_unknown=copy_unknown
        )
        translations = translator.translate(["der Hund singt ."])
        (rows,) = translator.alternatives(["der Hund singt ."], translations, 99)
        assert all(("<unknown>" in [each.token for each in row]) == copy_unknown for row in rows)


def test_a_single_token_is_labeled_as_part_of_its_word(tmp_path: Path, translator: Translator):
    pieces = untrained_translator(tmp_path / "run", {"unit": "subwords", "size": 24, "coverage": 1.0}, {})
    names = {"▁the": "the", "s": "‑s", "▁": "▁", "<end>": "<end>", ".": "."}
    assert {token: pieces.token_label(token) for token in names} == names
    assert [translator.token_label(token) for token in ("a", " ", "<end>")] == ["a", "␣", "<end>"]


# --- scores ----------------------------------------------------------------------------------------------


def test_a_given_text_has_a_score(translator: Translator):
    right, wrong, nothing = translator.score([("abc", "abc"), ("abc", "abd"), ("", "")])
    assert len(right.log_probabilities) == 4
    assert right.perplexity == pytest.approx(torch.tensor(right.log_probabilities).mean().neg().exp().item(), abs=1e-5)
    assert wrong.log_probability < right.log_probability - 3
    assert (nothing.log_probabilities, nothing.log_probability, nothing.perplexity) == ((), 0.0, 1.0)


def test_scores_do_not_depend_on_the_rest_of_the_batch(half_trained: Translator):
    pairs = [("abc", "cba"), ("e", "abcdeabcde"), ("abcde", ""), ("", ""), ("abcde", "a"), ("ba", "ba")] * 20
    together = half_trained.score(pairs)
    for pair, score in zip(pairs, together, strict=True):
        assert half_trained.score([pair])[0].log_probabilities == pytest.approx(score.log_probabilities, abs=1e-5)


@pytest.mark.parametrize(
    ("pair", "message"),
    [(("abx", "a"), "character 'x'"), (("a", "abx"), "token 3, 'x'"), (("", "a"), "its source is empty")],
)
def test_a_pair_that_cannot_be_scored_is_refused(translator: Translator, pair: tuple[str, str], message: str):
    with pytest.raises(UserError, match=message):
        translator.score([("abc", "abc"), pair])


# --- ensembles -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ensemble_runs(trained_brief: Callable[..., Path]) -> list[Path]:
    return [trained_brief(f"training.seed={seed}", *kind) for seed, kind in ((2, ()), (3, ()), (4, TRANSFORMER))]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_an_ensemble_averages_log_probabilities(ensemble_runs: list[Path], search: SearchOptions):
    together, alone = regard.load(*ensemble_runs), [regard.load(path) for path in ensemble_runs]
    for text, translation in zip(TEXTS, together.translate(TEXTS, search), strict=True):
        if not translation.finished or not text:
            continue
        scores = [each.score([(text, translation.text)])[0].log_probability for each in alone]
        assert translation.score == pytest.approx(sum(scores) / 3, abs=1e-5)
        assert translation.score == pytest.approx(
            together.score([(text, translation.text)])[0].log_probability, abs=1e-5
        )
        assert translation.attention.shape == (len(translation.tokens), len(translation.source_tokens))
        assert torch.allclose(translation.attention.sum(-1), torch.ones(len(translation.tokens)), atol=1e-5)


def test_an_ensemble_of_one_run_twice_is_that_run(trained: Path, translator: Translator):
    for one, other in zip(regard.load(trained, trained).translate(TEXTS), translator.translate(TEXTS), strict=True):
        assert is_same(one, other)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "data.alphabet=abcdef",
            r"source vocabularies differ, token \d is '.' in the first and '.' in the second",
        ),
        ("data.train=600", "their source vocabularies differ"),  # the same tokens, with other ids
        ("data.alphabet=abcd", "their source vocabularies differ"),
    ],
)
def test_runs_with_different_vocabularies_cannot_form_an_ensemble(
    trained_brief: Callable[..., Path], setting: str, message: str
):
    with pytest.raises(UserError, match=message):
        regard.load(trained_brief(), trained_brief(setting))


def test_runs_that_tokenize_differently_cannot_form_an_ensemble(tmp_path: Path, new_callback: Callable[..., object]):
    from regard.config import loading
    from regard.training.train_run import train_run

    for prompt in ("first", "last"):
        few = ["data.train=500", "data.validation=5", "data.test=5", "training.epochs=1", f"data.prompt={prompt}"]
        train_run(loading.load_experiment("case", few), tmp_path / prompt, new_callback())
    together = regard.load(tmp_path / "first", tmp_path / "last")
    with pytest.raises(
        UserError, match=r"last tokenizes this text differently from .*first: they cannot form an ensemble"
    ):
        together.translate(["<U> abc"])


# --- alignment, progress, tree ---------------------------------------------------------------------------


def test_an_alignment_links_each_token_to_the_most_attended_source_token(translator: Translator):
    (translation,) = translator.translate(["abcde"])
    assert translation.alignment == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert regard.inference.translation.EMPTY_TRANSLATION.alignment == []


@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        ([[0.1, 0.6, 0.3], [0.2, 0.1, 0.7], [0.0, 0.0, 1.0]], [(1, 0)]),  # the second attends to the end
        ([[0.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.0, 1.0]], [(0, 1)]),  # the first has no attention
        ([[[1.0, 0.0, 0.0]] * 3, [[0.0, 0.9, 0.1]] * 3, [[0.0, 0.9, 0.1]] * 3], [(1, 0), (1, 1)]),  # heads averaged
    ],
)
def test_alignments_by_hand(attention: list[object], expected: list[tuple[int, int]]):
    tokens = ("x", "y", "<end>")
    translation = Translation("xy", tokens, ("a", "b", "<end>"), (-1.0,) * 3, torch.tensor(attention), finished=True)
    assert translation.alignment == expected
    truncated = Translation("xyz", ("x", "y", "z"), ("a", "b", "<end>"), (-1.0,) * 3, torch.eye(3), finished=False)
    assert truncated.alignment == [(0, 0), (1, 1)]


def test_should_stop_is_called_before_each_step_and_ends_the_search(translator: Translator):
    (translation,) = translator.translate(["abc"])
    calls: list[int] = []

    def stop_after(count: int) -> Callable[[], bool]:
        calls.clear()
        return lambda: bool(calls.append(1)) or len(calls) > count

    assert translator.translate(["abc"], should_stop=stop_after(99))[0].text == translation.text
    steps = len(calls)
    assert steps == len(translation.tokens)
    for count in range(steps):
        with pytest.raises(SearchStopped):
            translator.translate(["abc"], should_stop=stop_after(count))
        assert len(calls) == count + 1
    with pytest.raises(SearchStopped):
        translator.tree("abc", SearchOptions(beam=2), should_stop=stop_after(1))
    with pytest.raises(SearchStopped):
        translator.score([("abc", "abc")], should_stop=stop_after(0))
    with pytest.raises(SearchStopped):
        translator.alternatives(["abc"], [translation], 2, should_stop=stop_after(0))
    assert translator.translate(["abc"])[0].text == translation.text, "a stopped search does not affect later ones"


def test_progress_counts_every_text_once(translator: Translator):
    counts: list[int] = []
    translator.translate(TEXTS * 20, advance=counts.append)
    assert sum(counts) == len(TEXTS) * 20
    assert max(counts) == translator.experiment.decoding.batch_size
    counts.clear()
    translator.translate(["abc"] * 64, SearchOptions(beam=64), counts.append)
    assert counts == [0, 16, 16, 16, 16]  # a wide beam has smaller batches
    counts.clear()
    translator.score([(text, text) for text in TEXTS], counts.append)
    assert sum(counts) == len(TEXTS)


def test_the_best_leaf_of_a_tree_is_the_translation(half_trained: Translator):
    search = SearchOptions(beam=3, n_best=2, length_penalty=0.6)
    for text in ("abc", "e"):
        nodes = half_trained.tree(text, search)
        (translation,) = half_trained.translate([text], search)
        (best,) = [node for node in nodes if node.rank == 1]
        assert best.score == pytest.approx(translation.score, abs=1e-5)
        path = [best.token]
        parent = best.parent
        while parent is not None:
            path.insert(0, nodes[parent].token)
            parent = nodes[parent].parent
        assert tuple(path) == translation.tokens
    assert half_trained.tree("", search) == []
    with pytest.raises(UserError, match="sampling has no tree"):
        half_trained.tree("abc", SearchOptions(sample=True))


# --- unknown words ---------------------------------------------------------------------------------------


WORDS = [Pair("der Hund schläft .", "the dog sleeps ."), Pair("der Hund singt .", "the dog sings .")]
MULTI_HEAD = {
    "encoder": {"kind": "self-attention", "size": 8, "embedding": 8, "heads": 2},
    "decoder": {"kind": "transformer", "size": 8, "embedding": 8, "heads": 2, "layers": 2},
    "attention": {"kind": "multi-head", "heads": 2},
}


def untrained_translator(
    path: Path, text: dict[str, object], model: dict[str, object], **decoding: object
) -> Translator:
    """An untrained model whose most likely token is `<unknown>`."""
    task = FilesTask(FilesSection.model_validate({"train": "train", "validation": "validation", "text": text}))
    codec = Codec.build(task.learn_tokenization(WORDS), WORDS)
    experiment = Experiment.model_validate({"data": task.section, "model": model, "decoding": decoding})
    torch.manual_seed(3)
    weights = named_weights(build_model(experiment.model, *codec.sizes))
    weights["decoder.readout.output_layer.bias"][Vocabulary.unknown] = 50.0
    run = Run.create(path, experiment, codec)
    run.write_tensors(MODEL, weights, {})
    return regard.load(path)


@pytest.mark.parametrize("model", [{}, MULTI_HEAD], ids=["recurrent", "transformer"])
def test_an_unknown_word_is_replaced_by_the_most_attended_source_word(tmp_path: Path, model: dict[str, object]):
    translator = untrained_translator(tmp_path / "run", {"unit": "words"}, model, copy_unknown=True)
    (translation,) = translator.translate(["der Zebrafink singt ."])
    assert set(translation.tokens) == {"<unknown>"}
    most_attended = mean_attention(translation.attention)[:, :-1].argmax(-1).tolist()
    assert translation.text == " ".join(["der", "Zebrafink", "singt", "."][position] for position in most_attended)
    assert "<unknown>" not in translation.text


def test_without_copy_unknown_unknown_is_never_generated(tmp_path: Path):
    translator = untrained_translator(tmp_path / "run", {"unit": "words"}, {})
    for search in (SearchOptions(), SearchOptions(beam=4, n_best=4), SearchOptions(sample=True, n_best=3)):
        (translation,) = translator.translate(["der Zebrafink singt ."], search)
        for each in translation.n_best:
            assert "<unknown>" not in each.tokens
            assert "<unknown>" not in each.text


@pytest.mark.parametrize("unit", ["words", "characters", "subwords"])
def test_a_lone_surrogate_is_refused_in_every_argument(tmp_path: Path, unit: str):
    size = 20 if unit == "subwords" else None
    translator = untrained_translator(tmp_path / "run", {"unit": unit, "size": size}, {})
    for call in (
        lambda: translator.translate(["der \ud800"], SearchOptions(sample=True)),
        lambda: translator.translate(["der Hund"], SearchOptions(prefix="the \udcff")),
        lambda: translator.score([("der Hund", "the \udcff")]),
    ):
        with pytest.raises(UserError, match=r"character 5, '\\ud\w+', is not Unicode; write it in UTF-8$"):
            call()


def hypothesis(tokens: list[int], attention: object) -> Hypothesis:
    return Hypothesis(tokens, [0.0] * len(tokens), torch.tensor(attention), finished=True)


def test_copied_words_by_hand():
    unknown, end = Vocabulary.unknown, Vocabulary.end
    source = ("Ein", "Gnu", "<end>")
    attention = [[0.2, 0.3, 0.5], [0.4, 0.3, 0.3], [0.9, 0.1, 0.0]]
    assert copied_words(hypothesis([unknown, unknown, end], attention), source) == {0: "Gnu", 1: "Ein"}
    assert copied_words(hypothesis([7, unknown, end], attention), source) == {1: "Ein"}
    assert copied_words(hypothesis([7, 8, end], attention), source) == {}
    assert copied_words(hypothesis([unknown, end], [[0.0, 0.0, 0.0]] * 2), source) == {}
    assert copied_words(hypothesis([unknown, end], [[0.0, 0.0, 1.0]] * 2), source) == {}, "the end is not a word"
    heads = [[[0.6, 0.4, 0.0]] * 2, [[0.1, 0.9, 0.0]] * 2]
    assert copied_words(hypothesis([unknown, end], heads), source) == {0: "Gnu"}, "layers and heads averaged"


def test_source_tokens_keep_their_spelling(tmp_path: Path):
    translator = untrained_translator(tmp_path / "run", {"unit": "words"}, {})
    (translation,) = translator.translate(["der Zebrafink singt."])
    assert translation.source_tokens == ("der", "Zebrafink", "singt", "￭.", "<end>")
    assert translator.codec.source_tokens("der Zebrafink") == ["der", "<unknown>", "<end>"]
    assert translation.attention.shape[-1] == 5
    assert translation.word_starts == (True,) * len(translation.tokens)
    assert translation.source_word_starts == (True,) * 5


def test_word_starts_mark_the_first_subword_of_each_word(tmp_path: Path):
    pieces = {"unit": "subwords", "size": 24, "coverage": 1.0}
    (translation,) = untrained_translator(tmp_path / "run", pieces, {}).translate(["der Hund Ω singt"])
    words = [token for token in translation.source_tokens if token.startswith("▁")]
    assert "Ω" in "".join(translation.source_tokens)
    assert len(words) == 4 < len(translation.source_tokens) - 1
    for tokens, starts in (
        (translation.source_tokens, translation.source_word_starts),
        (translation.tokens, translation.word_starts),
    ):
        assert len(starts) == len(tokens)
        assert [starts[position] for position, token in enumerate(tokens) if position and token != "<end>"] == [
            token.startswith("▁") for token in tokens[1:] if token != "<end>"
        ]
    assert translation.source_word_starts[0]


def test_the_length_penalty_defaults_to_that_of_the_run(trained_brief: Callable[..., Path]):
    with_penalty = regard.load(trained_brief("decoding.length_penalty=2.0"))
    plain = regard.load(trained_brief())
    texts = ["abc", "edcba", "aab"]
    for own, expected in ((None, 2.0), (0.0, 0.0), (0.5, 0.5)):
        search = regard.Search(beam=4, length_penalty=own)
        assert with_penalty.length_penalty(search) == expected
        expected_translations = plain.translate(texts, regard.Search(beam=4, length_penalty=expected))
        assert [one.text for one in with_penalty.translate(texts, search)] == [
            one.text for one in expected_translations
        ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda it: it.translate("abc"), r"translate takes a list of texts; for one text, write \[text\]"),
        (lambda it: it.translate(None), "translate takes a list of texts"),
        (lambda it: it.translate([3]), "3 is not a text"),
        (lambda it: it.translate([b"a"]), "b'a' is not a text"),
        (lambda it: it.translate(["a"], {"beam": 5}), r"search should be a regard\.Search, such as"),
        (lambda it: it.score(["ab"]), "'ab' is not a pair of texts"),
        (lambda it: it.score([("a",)]), "is not a pair of texts"),
        (lambda it: it.score(None), "score takes a list of pairs"),
        (lambda it: type(it)("runs/x"), "'runs/x' is not an open run; regard.load opens"),
        (lambda it: regard.load(3), "3 is not a run: give the path"),
    ],
)
def test_wrong_arguments_are_explained(trained: Path, call: Callable[[Any], Any], message: str):
    translator = regard.load(str(trained))
    with pytest.raises(regard.UserError, match=message):
        call(translator)


def test_texts_may_come_from_a_generator(trained: Path):
    translator = regard.load(regard.Run(str(trained)))
    assert [each.text for each in translator.translate(text for text in ("ab", "c"))] == ["ab", "c"]
