"""A finished run at work."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import regard
from regard import Translation, Translator
from regard.config.schema import Experiment
from regard.data import Codec
from regard.errors import UserError
from regard.inference.translation import mean_attention
from regard.inference.translator import copied_words
from regard.nn.build import build_model
from regard.runs import MODEL, Run, named_weights
from regard.search import Hypothesis, SearchOptions, SearchStopped
from regard.search import search as run_search
from regard.tasks import Pair
from regard.tasks.parallel import FilesSection, FilesTask
from regard.text import Vocabulary

TEXTS = ["abc", "e", "", "ddddd", "abcde", "ba", "", "e", "cabba"]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained)


def same(one: Translation, other: Translation) -> bool:
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


def test_a_text_without_tokens_is_empty_too(tmp_path: Path, watcher: Callable[..., object]):
    from regard.config import loading
    from regard.training import train

    few = ["data.train=2000", "data.validation=5", "data.test=5", "training.validate_every=1"]
    train(loading.load_experiment("clauses", few), tmp_path / "run", watcher(stop_after=1))
    translator = regard.load(tmp_path / "run")
    assert [each.tokens for each in translator.translate(["  ", "", "\u3000"])] == [(), (), ()]
    assert [each.log_probabilities for each in translator.score([("  ", ""), ("", "")])] == [(), ()]
    assert translator.tree(" ", SearchOptions(beam=2)) == []
    with pytest.raises(UserError, match="its source is empty"):
        translator.score([("  ", "the dog")])


def test_a_translation_tells_its_tokens_and_where_each_looked(translator: Translator):
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
def test_company_in_the_batch_does_not_matter(
    translator: Translator, trained_brief: Callable[..., Path], settings: tuple[str, ...]
):
    some = regard.load(trained_brief(*settings)) if settings else translator
    texts = [text for text in TEXTS if text] * 3
    together = some.translate(texts)
    assert all(same(together[place], some.translate([text])[0]) for place, text in enumerate(texts))
    assert all(same(one, other) for one, other in zip(some.translate(texts[::-1]), together[::-1], strict=True))


def test_loading_twice_gives_the_same_to_the_bit(trained: Path, translator: Translator):
    for one, other in zip(regard.load(str(trained)).translate(TEXTS), translator.translate(TEXTS), strict=True):
        assert one.score == other.score
        assert torch.equal(one.attention, other.attention)
        assert one.text == other.text


def test_the_callers_random_numbers_and_gradients_are_left_alone(trained: Path):
    before = torch.get_rng_state()
    translator = regard.load(trained)
    (translation,) = translator.translate(["abc"])
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    assert not translation.attention.requires_grad
    assert not translator.model.training


def test_a_score_is_the_log_probability_of_the_tokens(translator: Translator):
    (translation,) = translator.translate(["bad"])
    numbers = [*translator.codec.target_vocabulary.to_ids("bad"), 2]
    source = torch.tensor([translator.encode("bad").ids])
    state = translator.model.start(source, torch.ones_like(source, dtype=torch.bool))
    logits, _ = translator.model.decoder.teacher_forced(torch.tensor([[1, *numbers[:-1]]]), state)
    chances = logits.log_softmax(-1)[0, range(4), numbers]
    assert translation.score == pytest.approx(chances.sum().item(), abs=1e-5)


@pytest.mark.parametrize(("text", "message"), [("abx", "not trained on the character 'x'"), ("a b", "' '")])
def test_a_text_that_the_task_cannot_serve_is_refused(translator: Translator, text: str, message: str):
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
def test_an_output_ends_where_the_decoders_positions_end(trained_brief: Callable[..., Path], kind: str):
    translator = regard.load(trained_brief(f"model.decoder.positions={{kind: {kind}, longest: 6}}"))
    for translation in translator.translate(["abcdeabcde", "a"]):
        assert len(translation.tokens) <= 6
        assert translation.finished == (translation.tokens[-1] == "<end>")


def limits(translator: Translator, search: SearchOptions, monkeypatch: pytest.MonkeyPatch, *texts: str) -> list[int]:
    """How long each output may be, the shortest text first."""
    asked: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            "regard.inference.translator.run_search",
            lambda *a: (asked.extend(a[1].max_lengths.tolist()), run_search(*a))[1],
        )
        translator.translate(texts, search)
    return asked


def test_the_maximum_length_grows_with_the_source(trained_brief: Callable[..., Path], monkeypatch: pytest.MonkeyPatch):
    translator = regard.load(trained_brief("decoding.length_factor=1.5", "decoding.length_extra=2"))
    texts = ("abcde", "a")
    assert limits(translator, SearchOptions(), monkeypatch, *texts) == [5, 11]  # 1.5 · 2 + 2 and 1.5 · 6 + 2
    assert limits(translator, SearchOptions(prefix="bad"), monkeypatch, *texts) == [
        8,
        14,
    ]  # what is given does not count
    assert limits(translator, SearchOptions(min_length=9), monkeypatch, *texts) == [10, 11]
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
def unsure(request: pytest.FixtureRequest, trained_brief: Callable[..., Path]) -> Translator:
    """Half trained, so that it has many hypotheses."""
    return regard.load(trained_brief("training.epochs=8", "model.dropout=0", *request.param))


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_neither_company_nor_order_matters_to_any_search(unsure: Translator, search: SearchOptions):
    texts = [text for text in TEXTS if text] * 9 + ["cabbage"[:length] for length in (1, 2, 3, 4, 5)]
    texts = [text.replace("g", "d") for text in texts]
    alone = {text: unsure.translate([text], search)[0] for text in texts}
    for order in (texts, texts[::-1]):
        for text, translation in zip(order, unsure.translate(order, search), strict=True):
            for one, other in zip(translation.n_best, alone[text].n_best, strict=True):
                assert same(one, other)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_a_score_is_found_again(unsure: Translator, search: SearchOptions):
    for text, translation in zip(TEXTS, unsure.translate(TEXTS, search), strict=True):
        for each in translation.n_best:
            (again,) = unsure.score([(text, each.text)])
            if each.finished:
                assert again.log_probabilities == pytest.approx(each.log_probabilities, abs=1e-5)
                assert again.log_probability == pytest.approx(each.score, abs=1e-5)
            else:  # cut off: the end is missing
                assert again.log_probabilities[:-1] == pytest.approx(each.log_probabilities, abs=1e-5)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_the_best_are_different_texts(unsure: Translator, search: SearchOptions):
    for translation in unsure.translate(TEXTS, search):
        texts = [each.text for each in translation.n_best]
        assert len(set(texts)) == len(texts) <= search.n_best
        assert all(not each.next_best for each in translation.next_best)


def test_texts_that_differ_only_in_blanks_are_one(tmp_path: Path, watcher: Callable[..., object]):
    from regard.config import loading
    from regard.training import train

    few = ["data.train=2000", "data.validation=5", "data.test=5", "training.epochs=1", "training.validate_every=1"]
    train(loading.load_experiment("spaces", few), tmp_path / "run", watcher(stop_after=1))
    translator = regard.load(tmp_path / "run")
    blank, letter = translator.codec.target_vocabulary.to_ids(["<blank>", "a"])
    with torch.no_grad():
        for token, more in ((blank, 9), (letter, 8), (Vocabulary.end, 9)):  # it says little else
            translator.model.decoder.readout.output_layer.bias[token] += more
    search = SearchOptions(beam=8, n_best=8)
    (translation,) = translator.translate(["a b"], search)
    assert [(each.text, each.tokens) for each in translation.n_best] == [("", ("<end>",)), ("a", ("a", "<end>"))]
    finished = [node for node in translator.tree("a b", search) if node.fate == "finished"]
    ranks = [node.rank for node in sorted(finished, key=lambda node: -node.score)]
    assert [rank for rank in ranks if rank] == [1, 2]
    assert ranks[1] is None  # `<blank> <end>` is the second best, and the first text again


def test_a_better_hypothesis_comes_first_and_beams_find_better_ones(unsure: Translator):
    texts = [text for text in TEXTS if text]
    greedy = unsure.translate(texts)
    beam = unsure.translate(texts, SearchOptions(beam=20, n_best=20))
    for one, other in zip(greedy, beam, strict=True):
        scores = [each.score for each in other.n_best if each.finished]
        assert scores == sorted(scores, reverse=True)
        if one.finished:
            assert other.score >= one.score - 1e-5


def test_a_prefix_is_what_an_output_begins_with(unsure: Translator):
    for prefix in ("e", "ed", "abcdeabc"):
        for translation in unsure.translate(TEXTS, SearchOptions(beam=3, n_best=2, prefix=prefix)):
            for each in translation.n_best:
                assert each.text.startswith(prefix) or not each.tokens


def test_samples_follow_the_seed_and_nothing_else(unsure: Translator):
    texts = [text for text in TEXTS if text]

    def drawn(seed: int, n_best: int = 1) -> list[str]:
        search = SearchOptions(sample=True, seed=seed, n_best=n_best, temperature=2.0)
        return ["/".join(each.text for each in translation.n_best) for translation in unsure.translate(texts, search)]

    state = torch.get_rng_state()
    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert torch.equal(torch.get_rng_state(), state)
    for one, several in zip(drawn(1), drawn(1, n_best=5), strict=True):
        assert one in several.split("/")  # more draws leave the first as it is


@pytest.mark.parametrize("rule", ["prefix", "min_length"])
def test_what_the_decoder_has_no_room_for_is_refused(trained_brief: Callable[..., Path], rule: str):
    translator = regard.load(trained_brief("model.decoder.positions={kind: learned, longest: 6}"))
    fits, too_much = {"prefix": ("abcde", "abcdea"), "min_length": (5, 6)}[rule]
    assert translator.translate(["a"], SearchOptions(**{rule: fits}))
    with pytest.raises(UserError, match="has 7 tokens, <end> included; this model has 6 positions"):
        translator.translate(["a"], SearchOptions(**{rule: too_much}))
    with pytest.raises(UserError, match="this target has 7 tokens"):
        translator.score([("a", "abcdea")])


def test_a_prefix_that_the_model_does_not_know_is_refused(translator: Translator):
    with pytest.raises(UserError, match="the prefix 'aXb': token 2, 'X', is not among the 5"):
        translator.translate([], SearchOptions(prefix="aXb"))
    with pytest.raises(UserError, match="the prefix 'a bc': token 2, 'bc', is not among the 5"):
        translator.translate([], SearchOptions(prefix=("a", "bc")))
    for special in ("<pad>", "<begin>", "\ud800"):
        with pytest.raises(UserError, match=r"token 1, .* is not among the 5"):
            translator.translate([], SearchOptions(prefix=(special,)))
    with pytest.raises(UserError, match="token 1, '<end>', is not among the 5"):
        translator.translate([], SearchOptions(prefix=("<end>", "a")))


def test_tokens_that_were_said_can_be_said_again_up_to_any_place(unsure: Translator):
    for search in (SearchOptions(), SearchOptions(beam=4, n_best=4)):
        for text, translation in zip(TEXTS, unsure.translate(TEXTS, search), strict=True):
            for each in translation.n_best:
                for place in range(len(each.tokens) + 1):
                    (again,) = unsure.translate([text], SearchOptions(prefix=each.tokens[:place]))
                    assert again.tokens[:place] == each.tokens[:place]
                    assert again.log_probabilities[:place] == pytest.approx(each.log_probabilities[:place], abs=1e-5)
                if each.finished:
                    assert again.tokens == each.tokens, "its end, too, can be forced"


def test_pieces_are_said_again_as_they_were_and_not_as_their_text_would_be_written(tmp_path: Path):
    pieces = {"unit": "subwords", "size": 24, "coverage": 1.0}
    translator = speechless(tmp_path / "run", pieces, {})
    said = ("▁", "d", "o", "g")
    assert translator.codec.prefix("dog") != translator.codec.prefix(said)
    (translation,) = translator.translate(["der Hund"], SearchOptions(prefix=said))
    assert translation.tokens[:4] == said


def test_unknown_words_can_be_said_again(tmp_path: Path):
    translator = speechless(tmp_path / "run", {"unit": "words"}, {}, copy_unknown=True)
    (translation,) = translator.translate(["der Zebrafink singt ."], SearchOptions(prefix=("<unknown>", "dog")))
    assert translation.tokens[:2] == ("<unknown>", "dog")


# --- alternatives ----------------------------------------------------------------------------------------


def test_the_first_alternative_is_what_greedy_search_says(unsure: Translator):
    translations = unsure.translate(TEXTS)
    for translation, rows in zip(translations, unsure.alternatives(TEXTS, translations, 3), strict=True):
        assert [row[0].token for row in rows] == list(translation.tokens)
        assert [row[0].log_probability for row in rows] == pytest.approx(translation.log_probabilities, abs=1e-5)
        assert all(len(row) == 3 for row in rows)
        assert all(one.log_probability >= other.log_probability for row in rows for one, other in pairwise(row))


def test_an_alternative_has_the_chance_that_it_has_when_it_is_forced(unsure: Translator):
    (translation,) = unsure.translate(["cabba"], SearchOptions(beam=3))
    (rows,) = unsure.alternatives(["cabba"], [translation], 99)
    for place, row in enumerate(rows):
        assert {each.token for each in row} == {*"abcde", "<end>"}, "all but what is never said"
        assert math.fsum(math.exp(each.log_probability) for each in row) <= 1 + 1e-6
        for each in row:
            (forced,) = unsure.translate(["cabba"], SearchOptions(prefix=(*translation.tokens[:place], each.token)))
            assert forced.log_probabilities[place] == pytest.approx(each.log_probability, abs=1e-5)


def test_unknown_is_an_alternative_where_it_may_be_said(tmp_path: Path):
    for copies in (True, False):
        translator = speechless(tmp_path / str(copies), {"unit": "words"}, {}, copy_unknown=copies)
        translations = translator.translate(["der Hund singt ."])
        (rows,) = translator.alternatives(["der Hund singt ."], translations, 99)
        assert all(("<unknown>" in [each.token for each in row]) == copies for row in rows)


def test_a_token_alone_is_labelled_as_a_piece_of_its_word(tmp_path: Path, translator: Translator):
    pieces = speechless(tmp_path / "run", {"unit": "subwords", "size": 24, "coverage": 1.0}, {})
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


def test_scores_do_not_depend_on_company(unsure: Translator):
    pairs = [("abc", "cba"), ("e", "abcdeabcde"), ("abcde", ""), ("", ""), ("abcde", "a"), ("ba", "ba")] * 20
    together = unsure.score(pairs)
    for pair, score in zip(pairs, together, strict=True):
        assert unsure.score([pair])[0].log_probabilities == pytest.approx(score.log_probabilities, abs=1e-5)


@pytest.mark.parametrize(
    ("pair", "message"),
    [(("abx", "a"), "character 'x'"), (("a", "abx"), "token 3, 'x'"), (("", "a"), "its source is empty")],
)
def test_a_pair_that_cannot_be_scored_is_refused(translator: Translator, pair: tuple[str, str], message: str):
    with pytest.raises(UserError, match=message):
        translator.score([("abc", "abc"), pair])


# --- several runs that vote ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def voters(trained_brief: Callable[..., Path]) -> list[Path]:
    return [trained_brief(f"training.seed={seed}", *kind) for seed, kind in ((2, ()), (3, ()), (4, TRANSFORMER))]


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_an_ensemble_averages_log_probabilities(voters: list[Path], search: SearchOptions):
    together, alone = regard.load(*voters), [regard.load(path) for path in voters]
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
        assert same(one, other)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "data.alphabet=abcdef",
            r"source vocabularies differ, token \d is '.' in the first and '.' in the second",
        ),
        ("data.train=600", "their source vocabularies differ"),  # the same tokens, with other numbers
        ("data.alphabet=abcd", "their source vocabularies differ"),
    ],
)
def test_runs_that_know_other_tokens_cannot_vote(trained_brief: Callable[..., Path], setting: str, message: str):
    with pytest.raises(UserError, match=message):
        regard.load(trained_brief(), trained_brief(setting))


def test_runs_that_read_a_text_in_another_way_cannot_vote(tmp_path: Path, watcher: Callable[..., object]):
    from regard.config import loading
    from regard.training import train

    for prompt in ("first", "last"):
        few = ["data.train=500", "data.validation=5", "data.test=5", "training.epochs=1", f"data.prompt={prompt}"]
        train(loading.load_experiment("case", few), tmp_path / prompt, watcher())
    together = regard.load(tmp_path / "first", tmp_path / "last")
    with pytest.raises(
        UserError, match=r"last tokenizes this text differently from .*first: they cannot form an ensemble"
    ):
        together.translate(["<U> abc"])


# --- alignment, progress, tree ---------------------------------------------------------------------------


def test_an_alignment_is_where_each_token_looked_most(translator: Translator):
    (translation,) = translator.translate(["abcde"])
    assert translation.alignment == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    assert regard.inference.translation.EMPTY_TRANSLATION.alignment == []


@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        ([[0.1, 0.6, 0.3], [0.2, 0.1, 0.7], [0.0, 0.0, 1.0]], [(1, 0)]),  # the second looks at the end
        ([[0.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.0, 1.0]], [(0, 1)]),  # the first has no attention
        ([[[1.0, 0.0, 0.0]] * 3, [[0.0, 0.9, 0.1]] * 3, [[0.0, 0.9, 0.1]] * 3], [(1, 0), (1, 1)]),  # heads averaged
    ],
)
def test_alignments_by_hand(attention: list[object], expected: list[tuple[int, int]]):
    tokens = ("x", "y", "<end>")
    translation = Translation("xy", tokens, ("a", "b", "<end>"), (-1.0,) * 3, torch.tensor(attention), finished=True)
    assert translation.alignment == expected
    cut_off = Translation("xyz", ("x", "y", "z"), ("a", "b", "<end>"), (-1.0,) * 3, torch.eye(3), finished=False)
    assert cut_off.alignment == [(0, 0), (1, 1)]


def test_should_stop_is_called_before_each_step_and_ends_the_search(translator: Translator):
    (translation,) = translator.translate(["abc"])
    calls: list[int] = []

    def after(count: int) -> Callable[[], bool]:
        calls.clear()
        return lambda: bool(calls.append(1)) or len(calls) > count

    assert translator.translate(["abc"], should_stop=after(99))[0].text == translation.text
    steps = len(calls)
    assert steps == len(translation.tokens)
    for count in range(steps):
        with pytest.raises(SearchStopped):
            translator.translate(["abc"], should_stop=after(count))
        assert len(calls) == count + 1
    with pytest.raises(SearchStopped):
        translator.tree("abc", SearchOptions(beam=2), should_stop=after(1))
    with pytest.raises(SearchStopped):
        translator.score([("abc", "abc")], should_stop=after(0))
    with pytest.raises(SearchStopped):
        translator.alternatives(["abc"], [translation], 2, should_stop=after(0))
    assert translator.translate(["abc"])[0].text == translation.text, "a search that was stopped leaves nothing behind"


def test_progress_counts_every_text_once(translator: Translator):
    counts: list[int] = []
    translator.translate(TEXTS * 20, advance=counts.append)
    assert sum(counts) == len(TEXTS) * 20
    assert max(counts) == translator.experiment.decoding.batch_size
    counts.clear()
    translator.translate(["abc"] * 64, SearchOptions(beam=64), counts.append)
    assert counts == [0, 16, 16, 16, 16]  # a wide beam takes fewer at once
    counts.clear()
    translator.score([(text, text) for text in TEXTS], counts.append)
    assert sum(counts) == len(TEXTS)


def test_the_winner_of_a_tree_is_the_translation(unsure: Translator):
    search = SearchOptions(beam=3, n_best=2, length_penalty=0.6)
    for text in ("abc", "e"):
        nodes = unsure.tree(text, search)
        (translation,) = unsure.translate([text], search)
        (winner,) = [node for node in nodes if node.rank == 1]
        assert winner.score == pytest.approx(translation.score, abs=1e-5)
        path = [winner.token]
        parent = winner.parent
        while parent is not None:
            path.insert(0, nodes[parent].token)
            parent = nodes[parent].parent
        assert tuple(path) == translation.tokens
    assert unsure.tree("", search) == []
    with pytest.raises(UserError, match="sampling has no tree"):
        unsure.tree("abc", SearchOptions(sample=True))


# --- unknown words ---------------------------------------------------------------------------------------


WORDS = [Pair("der Hund schläft .", "the dog sleeps ."), Pair("der Hund singt .", "the dog sings .")]
MULTI_HEAD = {
    "encoder": {"kind": "self-attention", "size": 8, "embedding": 8, "heads": 2},
    "decoder": {"kind": "transformer", "size": 8, "embedding": 8, "heads": 2, "layers": 2},
    "attention": {"kind": "multi-head", "heads": 2},
}


def speechless(path: Path, text: dict[str, object], model: dict[str, object], **decoding: object) -> Translator:
    """A model that knows nothing and would rather say `<unknown>` than anything else."""
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
def test_an_unknown_word_is_the_source_word_that_was_looked_at_most(tmp_path: Path, model: dict[str, object]):
    translator = speechless(tmp_path / "run", {"unit": "words"}, model, copy_unknown=True)
    (translation,) = translator.translate(["der Zebrafink singt ."])
    assert set(translation.tokens) == {"<unknown>"}
    looked = mean_attention(translation.attention)[:, :-1].argmax(-1).tolist()
    assert translation.text == " ".join(["der", "Zebrafink", "singt", "."][place] for place in looked)
    assert "<unknown>" not in translation.text


def test_without_the_option_unknown_is_never_said(tmp_path: Path):
    translator = speechless(tmp_path / "run", {"unit": "words"}, {})
    for search in (SearchOptions(), SearchOptions(beam=4, n_best=4), SearchOptions(sample=True, n_best=3)):
        (translation,) = translator.translate(["der Zebrafink singt ."], search)
        for each in translation.n_best:
            assert "<unknown>" not in each.tokens
            assert "<unknown>" not in each.text


@pytest.mark.parametrize("unit", ["words", "characters", "subwords"])
def test_half_a_character_is_refused_wherever_it_stands(tmp_path: Path, unit: str):
    size = 20 if unit == "subwords" else None
    translator = speechless(tmp_path / "run", {"unit": unit, "size": size}, {})
    for ask in (
        lambda: translator.translate(["der \ud800"], SearchOptions(sample=True)),
        lambda: translator.translate(["der Hund"], SearchOptions(prefix="the \udcff")),
        lambda: translator.score([("der Hund", "the \udcff")]),
    ):
        with pytest.raises(UserError, match=r"character 5, '\\ud\w+', is not Unicode; write it in UTF-8$"):
            ask()


def hypothesis(tokens: list[int], attention: object) -> Hypothesis:
    return Hypothesis(tokens, [0.0] * len(tokens), torch.tensor(attention), finished=True)


def test_copied_words_by_hand():
    unknown, end = Vocabulary.unknown, Vocabulary.end
    source = ("Ein", "Gnu", "<end>")
    looks = [[0.2, 0.3, 0.5], [0.4, 0.3, 0.3], [0.9, 0.1, 0.0]]
    assert copied_words(hypothesis([unknown, unknown, end], looks), source) == {0: "Gnu", 1: "Ein"}
    assert copied_words(hypothesis([7, unknown, end], looks), source) == {1: "Ein"}
    assert copied_words(hypothesis([7, 8, end], looks), source) == {}
    assert copied_words(hypothesis([unknown, end], [[0.0, 0.0, 0.0]] * 2), source) == {}
    assert copied_words(hypothesis([unknown, end], [[0.0, 0.0, 1.0]] * 2), source) == {}, "the end is no word"
    heads = [[[0.6, 0.4, 0.0]] * 2, [[0.1, 0.9, 0.0]] * 2]
    assert copied_words(hypothesis([unknown, end], heads), source) == {0: "Gnu"}, "layers and heads averaged"


def test_source_tokens_are_shown_as_they_are_spelled(tmp_path: Path):
    translator = speechless(tmp_path / "run", {"unit": "words"}, {})
    (translation,) = translator.translate(["der Zebrafink singt."])
    assert translation.source_tokens == ("der", "Zebrafink", "singt", "￭.", "<end>")
    assert translator.codec.source_tokens("der Zebrafink") == ["der", "<unknown>", "<end>"]
    assert translation.attention.shape[-1] == 5
    assert translation.word_starts == (True,) * len(translation.tokens)
    assert translation.source_word_starts == (True,) * 5


def test_where_words_begin_is_told_of_pieces(tmp_path: Path):
    pieces = {"unit": "subwords", "size": 24, "coverage": 1.0}
    (translation,) = speechless(tmp_path / "run", pieces, {}).translate(["der Hund Ω singt"])
    words = [token for token in translation.source_tokens if token.startswith("▁")]
    assert "Ω" in "".join(translation.source_tokens)
    assert len(words) == 4 < len(translation.source_tokens) - 1
    for tokens, starts in (
        (translation.source_tokens, translation.source_word_starts),
        (translation.tokens, translation.word_starts),
    ):
        assert len(starts) == len(tokens)
        assert [starts[place] for place, token in enumerate(tokens) if place and token != "<end>"] == [
            token.startswith("▁") for token in tokens[1:] if token != "<end>"
        ]
    assert translation.source_word_starts[0]


def test_the_length_penalty_is_that_of_the_run_unless_the_search_has_its_own(trained_brief: Callable[..., Path]):
    lenient = regard.load(trained_brief("decoding.length_penalty=2.0"))
    plain = regard.load(trained_brief())
    texts = ["abc", "edcba", "aab"]
    for own, expected in ((None, 2.0), (0.0, 0.0), (0.5, 0.5)):
        search = regard.Search(beam=4, length_penalty=own)
        assert lenient.length_penalty(search) == expected
        same = plain.translate(texts, regard.Search(beam=4, length_penalty=expected))
        assert [one.text for one in lenient.translate(texts, search)] == [one.text for one in same]
