from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from regard.plotting.band_plot import Band
from regard.plotting.dot_plot import DotRow
from regard.studies import plots
from regard.studies.results import StudyResults

NewResults = Callable[..., StudyResults]
SHARES = {"none": [0.1, 0.2], "dot": [0.9, 0.8]}
VARY = ["model.attention.kind=none,dot"]


class RecordedPlots:
    """Records the arguments of the drawing functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bands: list[tuple[list[Band], tuple[object, ...], dict[str, object]]] = []
        self.dots: list[list[DotRow]] = []
        draw_bands, draw_dots = plots.draw_bands, plots.draw_dots

        def bands(given: list[Band], *more: object, **named: object) -> object:
            self.bands.append((list(given), more, named))
            return draw_bands(given, *more, **named)  # type: ignore[arg-type]

        def dots(given: list[DotRow], *more: object, **named: object) -> object:
            self.dots.append(list(given))
            return draw_dots(given, *more, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(plots, "draw_bands", bands)
        monkeypatch.setattr(plots, "draw_dots", dots)


@pytest.fixture
def recorded_plots(monkeypatch: pytest.MonkeyPatch) -> RecordedPlots:
    return RecordedPlots(monkeypatch)


def test_every_run_is_a_dot(new_results: NewResults, recorded_plots: RecordedPlots):
    results = new_results(SHARES, vary=VARY, seeds=2, metrics=["exact_match", "validation_loss", "alignment_accuracy"])
    assert len(list(plots.score_plots(results))) == 2  # there is no alignment accuracy
    none, dot = recorded_plots.dots[0]
    assert (none.label, none.values, none.group) == ("none", (0.1, 0.2), "")
    summary = results.cells[1].summary("exact_match")
    assert summary
    assert dot.interval == (summary.low, summary.high)


def test_evaluations_of_one_run_are_groups_of_a_row(new_results: NewResults, recorded_plots: RecordedPlots):
    results = new_results(
        {"dot · beam 1": [0.9], "dot · beam 4": [0.8]}, vary=["model.attention.kind=dot"], test=["beam=1,4"], seeds=1
    )
    list(plots.score_plots(results))
    assert [(dots.label, dots.group) for dots in recorded_plots.dots[0]] == [("dot", "beam 1"), ("dot", "beam 4")]


def test_evaluations_of_a_single_run_have_a_row_each(new_results: NewResults, recorded_plots: RecordedPlots):
    list(plots.score_plots(new_results({"beam 1": [0.9], "beam 4": [0.8]}, test=["beam=1,4"], seeds=1)))
    assert [(dots.label, dots.group) for dots in recorded_plots.dots[0]] == [("beam 1", ""), ("beam 4", "")]


def test_a_numeric_axis_is_drawn_as_a_scale(new_results: NewResults, recorded_plots: RecordedPlots):
    shares = {f"{kind} · beam {beam}": [beam / 100, beam / 50] for kind in ("none", "dot") for beam in (10, 1, 2)}
    results = new_results(shares, vary=VARY, test=["beam=10,1,2"], seeds=2)
    (picture,) = plots.trend_plots(results)
    assert picture.alt == "exact match against beam"
    bands, _, named = recorded_plots.bands[0]
    assert [(band.label, band.x) for band in bands] == [("none", (1, 2, 10)), ("dot", (1, 2, 10))]
    assert bands[0].runs == ((0.01, 0.02, 0.1), (0.02, 0.04, 0.2))
    assert named["log_x"]


def test_names_or_only_two_numbers_are_not_drawn_as_a_scale(new_results: NewResults):
    assert list(plots.trend_plots(new_results(SHARES, vary=VARY, seeds=2))) == []
    results = new_results(
        {"dot · beam 1": [0.9], "dot · beam 4": [0.8]}, vary=["model.attention.kind=dot"], test=["beam=1,4"]
    )
    assert list(plots.trend_plots(results)) == []


def test_learning_curves_have_a_value_for_each_run_and_step(new_results: NewResults, recorded_plots: RecordedPlots):
    results = new_results(SHARES, vary=VARY, seeds=2)
    assert [picture.alt for picture in plots.learning_curve_plots(results)] == [
        "learning curves: loss",
        "learning curves: exact match",
    ]
    losses, exact = (bands for bands, _, _ in recorded_plots.bands)
    assert [band.label for band in losses] == [band.label for band in exact] == ["none", "dot"]
    assert losses[0].x == (4, 8, 12)
    assert losses[0].runs[0] == pytest.approx((2.5, 2.1, 1.7))
    assert exact[1].runs == ((0.9,) * 3, (0.8,) * 3)


def test_later_steps_omit_a_run_that_ended_early(new_results: NewResults, recorded_plots: RecordedPlots):
    results = new_results({"dot": [0.5, 0.6]}, vary=["model.attention.kind=dot"], seeds=2)
    (cell,) = results.cells
    short = replace(cell.results[1], validations=cell.results[1].validations[:2])
    early = StudyResults(results.study, (replace(cell, results=(cell.results[0], short)),), 2, 2, ())
    list(plots.learning_curve_plots(early))
    assert recorded_plots.bands[0][0][0].runs[1][2] is None


def test_a_run_with_two_evaluations_has_one_learning_curve(new_results: NewResults, recorded_plots: RecordedPlots):
    results = new_results(
        {"dot · beam 1": [0.9], "dot · beam 4": [0.8]}, vary=["model.attention.kind=dot"], test=["beam=1,4"]
    )
    list(plots.learning_curve_plots(results))
    assert [band.label for band in recorded_plots.bands[1][0]] == ["dot"]


def test_sentences_of_similar_length_are_scored_together(new_results: NewResults, recorded_plots: RecordedPlots):
    results = new_results({"none": [0.3, 0.3], "dot": [1.0, 0.0]}, vary=VARY, seeds=2, sentences=200)
    (picture,) = plots.length_plots(results)
    assert picture.alt == "exact match against source length"
    (none, dot), _, _ = recorded_plots.bands[0]
    lengths = results.cells[0].results[0].lengths
    assert none.x == tuple(sorted(none.x))
    assert min(lengths) <= none.x[0] < none.x[-1] <= max(lengths)
    assert dot.runs == ((1.0,) * len(dot.x), (0.0,) * len(dot.x))
    assert all(0 <= value <= 1 for value in none.runs[0] if value is not None)


def test_bins_hold_whole_lengths_and_all_sentences(new_results: NewResults):
    (cell,) = new_results({"dot": [0.5]}, vary=["model.attention.kind=dot"], seeds=1, sentences=173).cells
    result = cell.results[0]
    bins = plots.length_bins(result.lengths)
    assert sorted(index for indices in bins for index in indices) == list(range(173))
    lengths = [{result.lengths[index] for index in indices} for indices in bins]
    assert all(not own & other for number, own in enumerate(lengths) for other in lengths[:number])
    assert all(max(own) < min(after) for own, after in pairwise(lengths))


def test_an_evaluation_of_longer_texts_continues_the_line_of_the_shorter_ones(
    new_results: NewResults, recorded_plots: RecordedPlots
):
    results = new_results(
        {"dot · max_length 5": [0.9], "dot · max_length 9": [0.8]},
        vary=["model.attention.kind=dot"],
        test=["data.max_length=5,9"],
        seeds=1,
    )
    list(plots.length_plots(results))
    lines = [(band.panel, band.label) for band in recorded_plots.bands[0][0]]
    assert lines == [("dot", "max_length 5"), ("dot", "max_length 9")]  # of the same lengths: two lines
    short, long = results.cells
    lengths, sources = long.results[0].lengths, long.results[0].sources
    longer = replace(
        long.results[0], lengths=tuple(n + 10 for n in lengths), sources=tuple(f"{'x' * 10}{text}" for text in sources)
    )
    apart = StudyResults(results.study, (short, replace(long, results=(longer,))), 1, 1, ())
    list(plots.length_plots(apart))
    (band,) = recorded_plots.bands[1][0]
    assert (band.panel, band.label) == ("", "dot")
    assert band.x[0] < 8 < 12 < band.x[-1]


def test_with_two_axes_the_first_has_panels(new_results: NewResults, recorded_plots: RecordedPlots):
    shares = {f"{kind} · max_length {length}": [0.5] for kind in ("none", "dot") for length in (3, 5)}
    results = new_results(shares, vary=[*VARY, "data.max_length=3,5"], seeds=1)
    list(plots.length_plots(results))
    indices = [(band.panel, band.label) for band in recorded_plots.bands[0][0]]
    assert indices == [(kind, f"max_length {length}") for kind in ("none", "dot") for length in (3, 5)]


def test_metrics_without_sentence_scores_have_no_plot_by_length(new_results: NewResults):
    assert list(plots.length_plots(new_results(SHARES, vary=VARY, seeds=2, metrics=["validation_loss"]))) == []


def test_a_sentence_has_one_length_for_all_models(new_results: NewResults, recorded_plots: RecordedPlots):
    results = new_results(SHARES, vary=VARY, seeds=2)
    none, dot = results.cells
    longer = tuple(replace(result, lengths=tuple(n + 1 for n in result.lengths)) for result in dot.results)
    list(plots.length_plots(StudyResults(results.study, (none, replace(dot, results=longer)), 4, 4, ())))
    bands, _, _ = recorded_plots.bands[0]
    assert bands[0].x == bands[1].x
