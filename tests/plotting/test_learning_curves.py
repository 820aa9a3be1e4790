import math

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from regard.errors import UserError
from regard.plotting import figures
from regard.plotting.learning_curves import (
    ACCURACIES,
    ERRORS,
    LOSSES,
    RATE,
    SCORES,
    TEACHER_FORCING,
    draw_learning_curves,
    metric_points,
)

PERCENT = ["accuracy (%)", "schedule (%)"]
BLEU = {"validation_bleu_lc": 35.0, "validation_bleu": 33.5, "validation_chrf": 55.0}
G2P = {"validation_word_error": 0.375, "validation_phoneme_error": 0.125}


def a_row(step: int, **changes: object) -> dict[str, object]:
    loss = 1 + 4 / step
    row: dict[str, object] = {
        "step": step,
        "epoch": step / 50,
        "train_loss": loss - 0.25,
        "validation_loss": loss,
        "validation_token_accuracy": 0.75,
        "validation_exact_match": 0.25,
        "rate": 0.003 / step,
        "teacher_forcing": 1.0,
        "seconds": 7.0 * step,
    }
    return row | changes


def line(axes: Axes, label: str) -> Line2D:
    (found,) = [line for line in axes.lines if str(line.get_label()).startswith(label)]
    return found


def labels(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_three_panels_share_the_steps() -> None:
    figure = draw_learning_curves([a_row(step) for step in (2, 3, 5)], title="$run$_1")
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", *PERCENT]
    assert len({axes.get_xlim() for axes in figure.axes}) == 1
    assert figure.axes[0].get_xlim()[0] == 0
    assert figure.axes[-1].get_xlabel() == "step"
    assert figure.get_suptitle() == "$run$_1"
    figures.render_figure(figure, ".png")


def test_lines_go_through_the_recorded_values() -> None:
    losses, accuracies, schedules = draw_learning_curves([a_row(step) for step in (2, 4)]).axes
    np.testing.assert_allclose(line(losses, "training").get_xydata(), [[2, 2.75], [4, 1.75]])
    np.testing.assert_allclose(line(losses, "validation").get_xydata(), [[2, 3], [4, 2]])
    np.testing.assert_allclose(line(accuracies, "tokens, teacher").get_ydata(), [75, 75])
    np.testing.assert_allclose(line(accuracies, "exact match").get_ydata(), [25, 25])
    np.testing.assert_allclose(line(schedules, "learning rate").get_ydata(), [100, 50])
    assert labels(schedules) == ["learning rate\n(100 % = 0.0015)"]


def test_the_lowest_validation_loss_is_marked() -> None:
    rows = [a_row(step, validation_loss=loss) for step, loss in ((1000, 3.0), (2000, 1.25), (3000, 2.0))]
    losses = draw_learning_curves(rows).axes[0]
    best = line(losses, "lowest")
    assert best.get_label() == "lowest: 1.25 at step 2,000"
    np.testing.assert_array_equal(best.get_xydata(), [[2000, 1.25]])


@pytest.mark.parametrize(
    ("own", "label", "drawn"),
    [
        (BLEU, "score", {"BLEU, lowercased": 35, "BLEU": 33.5, "chrF2": 55}),
        (G2P, "error rate (%)", {"word error rate": 37.5, "phoneme error rate": 12.5}),
        ({"validation_character_error": 1.25}, "error rate (%)", {"character error rate": 125}),
    ],
)
def test_the_metrics_of_translations_have_a_panel_of_their_own(own, label, drawn) -> None:
    panel = draw_learning_curves([a_row(step, **own) for step in (2, 3)]).axes[1]
    assert panel.get_ylabel() == label
    assert {str(each.get_label()): each.get_ydata()[-1] for each in panel.lines} == drawn
    assert panel.get_ylim()[0] == 0
    assert panel.get_ylim()[1] > max(drawn.values())


def test_rows_of_earlier_versions_are_drawn_without_their_free_running_losses() -> None:
    old = {"free_running_loss": 7.0, "free_running_token_accuracy": 0.5, "free_running_exact_match": 0.25}
    losses, accuracies, _ = draw_learning_curves([a_row(step, **old) for step in (2, 3)]).axes
    assert labels(losses)[:2] == ["validation", "training"]
    assert labels(accuracies) == ["tokens, teacher-forced", "exact match"]


def test_teacher_forcing_is_shown_only_if_it_changes_something() -> None:
    schedules = draw_learning_curves([a_row(2), a_row(3, teacher_forcing=0.5)]).axes[2]
    np.testing.assert_allclose(line(schedules, "teacher forcing").get_ydata(), [100, 50])
    assert not [name for name in labels(draw_learning_curves([a_row(2)]).axes[2]) if "forcing" in name]


def test_a_single_validation_is_visible() -> None:
    figure = draw_learning_curves([a_row(2)])
    for axes in figure.axes:
        for drawn in axes.lines:
            assert drawn.get_marker() not in ("", "None", None)
            assert len(drawn.get_xdata()) == 1
    figures.render_figure(figure, ".png")


def test_hundreds_of_validations_have_few_markers() -> None:
    figure = draw_learning_curves([a_row(step) for step in range(1, 500)])
    assert 499 / line(figure.axes[0], "training").get_markevery() < 15


def test_legends_cover_no_line() -> None:
    figure = draw_learning_curves([a_row(step, teacher_forcing=1 / step) for step in range(1, 30)])
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.get_legend().get_window_extent().x0 >= axes.bbox.x1


@pytest.mark.parametrize("panel", [LOSSES, SCORES, ERRORS, ACCURACIES, (RATE, TEACHER_FORCING)])
def test_lines_of_a_panel_differ_without_color(panel) -> None:
    for style in ("style", "marker", "color"):
        assert len({getattr(series, style) for series in panel}) == len(panel)


@pytest.mark.parametrize("missing", [None, math.nan, math.inf, "n/a"])
def test_missing_values_are_omitted(missing: object) -> None:
    rows = [a_row(2, train_loss=missing), a_row(3), a_row(5) | {"step": missing}]
    del rows[0]["validation_loss"]
    losses = draw_learning_curves(rows).axes[0]
    assert list(line(losses, "training").get_xdata()) == [3]
    assert list(line(losses, "validation").get_xdata()) == [3]


@pytest.mark.parametrize("key", [key for key in a_row(2) if key != "step"])
def test_any_key_may_be_absent_from_all_rows(key: str) -> None:
    rows = [a_row(2), a_row(3)]
    for row in rows:
        del row[key]
    figures.render_figure(draw_learning_curves(rows), ".svg")


def test_a_panel_without_values_is_omitted() -> None:
    rows = [{"step": 1, "train_loss": 2.0}, {"step": 2, "train_loss": 1.0}]
    (only,) = draw_learning_curves(rows).axes
    assert only.get_ylabel() == "loss"
    assert only.get_xlabel() == "step"


def test_losses_over_more_than_two_decades_are_on_a_logarithmic_scale() -> None:
    assert draw_learning_curves([a_row(2), a_row(3)]).axes[0].get_yscale() == "linear"
    tiny = {"train_loss": 0.01, "validation_loss": 0.02}
    assert draw_learning_curves([a_row(2), a_row(3, **tiny)]).axes[0].get_yscale() == "log"
    assert draw_learning_curves([a_row(2), a_row(3, train_loss=0.0)]).axes[0].get_yscale() == "linear"


def test_epochs_are_a_second_axis_on_top() -> None:
    losses = draw_learning_curves([a_row(100), a_row(200)]).axes[0]  # 50 steps per epoch
    (epochs,) = losses.child_axes
    assert epochs.get_xlabel() == "epoch"
    epochs.figure.draw_without_rendering()
    assert epochs.get_xlim()[1] == pytest.approx(losses.get_xlim()[1] / 50)


def test_a_validation_before_the_first_step_can_be_drawn() -> None:
    figures.render_figure(draw_learning_curves([a_row(1) | {"step": 0, "epoch": 0.0, "rate": 0.0}]), ".png")


def test_no_validations_are_reported_in_the_figure() -> None:
    with pytest.raises(UserError, match="no validation has been recorded yet"):
        draw_learning_curves([])
    with pytest.raises(UserError, match="hold no step with a value to draw"):
        draw_learning_curves([{"step": 1, "seconds": 2.0}])


def test_points_are_steps_and_values() -> None:
    assert metric_points([{"step": 2, "rate": 0.5}, {"step": 3}, {"rate": 1.0}], "rate") == ([2.0], [0.5])
