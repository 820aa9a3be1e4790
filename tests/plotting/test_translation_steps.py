import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.plotting import figures
from regard.plotting.translation_steps import MAX_STEPS, TranslationStep, draw_translation_steps

SOURCE = ["▁Ein", "▁spiel", "ende", "s", "<end>"]


def a_step(token: str = "a", scores: bool = True, weights: bool = True) -> TranslationStep:
    return TranslationStep(
        token,
        [1.5, -2.0, 0.0, 3.0, 0.5] if scores else None,
        [0.1, 0.0, 0.2, 0.6, 0.1] if weights else None,
        [("a", 0.7), ("$b$", 0.2), ("c", 0.05), ("d", 0.01)],
    )


def heights(axes: Axes) -> list[float]:
    return [bar.get_height() for bar in axes.patches]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.texts]


def test_a_row_has_scores_weights_and_next_tokens() -> None:
    figure = draw_translation_steps([a_step("a"), a_step("c")], SOURCE, title="$title$")
    assert len(figure.axes) == 6
    scores, weights, next_tokens = figure.axes[:3]
    assert heights(scores) == [1.5, -2.0, 0.0, 3.0, 0.5]
    assert heights(weights) == [0.1, 0.0, 0.2, 0.6, 0.1]
    assert weights.get_ylim() == (0, 1)
    assert [bar.get_width() for bar in next_tokens.patches] == [0.7, 0.2, 0.05]
    assert [text.get_text() for text in next_tokens.texts] == ["a", "0.70", "$b$", "0.20", "c", "0.05"]
    assert scores.get_ylim() == figure.axes[3].get_ylim(), "rows can be compared"
    assert {"a", "c", "$title$", "scores $e_{t}$"} <= set(texts(figure))


def test_the_generated_token_is_marked() -> None:
    figure = draw_translation_steps([a_step("c")], SOURCE)
    colors = [bar.get_facecolor() for bar in figure.axes[2].patches]
    assert colors[0] == colors[1] != colors[2]


def test_source_tokens_are_labeled_as_in_the_attention_map() -> None:
    figure = draw_translation_steps([a_step(), a_step()], SOURCE, [True, True, False, False, True])
    labels = [[text.get_text() for text in axes.get_xticklabels()] for axes in figure.axes]
    assert labels[3] == labels[4] == ["Ein", "spiel", "‑ende", "‑s", "<end>"]
    assert labels[0] == labels[1] == [], "below the last row only"


@pytest.mark.parametrize(("scores", "weights", "columns"), [(False, True, 2), (False, False, 1), (True, True, 3)])
def test_a_column_without_values_is_omitted(scores: bool, weights: bool, columns: int) -> None:
    figure = draw_translation_steps([a_step("a", scores, weights)], SOURCE)
    assert len(figure.axes) == columns
    figures.render_figure(figure, ".png")


def test_more_steps_than_fit_are_counted() -> None:
    figure = draw_translation_steps([a_step()] * (MAX_STEPS + 5), SOURCE)
    assert len(figure.axes) == 3 * MAX_STEPS
    assert "… 5 more steps" in texts(figure)
    width, height = figure.get_size_inches()
    assert width == 10
    assert height < 11
    sizes = [text.get_fontsize() for axes in figure.axes for text in (*axes.texts, *axes.get_xticklabels())]
    assert min(sizes) >= 8, "legible on a slide"


def test_hostile_tokens_are_drawn_literally() -> None:
    figure = draw_translation_steps([a_step(r"$\\frac{")], [r"$\\alpha"] * 5)
    assert not figure.axes[2].texts[2].get_parse_math()
    figures.render_figure(figure, ".svg")


def test_a_translation_without_steps_is_drawn() -> None:
    assert texts(draw_translation_steps([], SOURCE)) == ["empty output"]
