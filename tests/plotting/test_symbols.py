import pytest
from matplotlib.figure import Figure

from regard.plotting import figures
from regard.plotting.symbols import Formula, figure_text, html, mathtext, typeset_html


@pytest.mark.parametrize(
    ("text", "in_figures", "in_pages"),
    [
        ("W_q", "$W_{q}$", "<var>W</var><sub>q</sub>"),
        ("e_ti", "$e_{ti}$", "<var>e</var><sub>ti</sub>"),
        ("h^enc", r"$h^{\mathrm{enc}}$", "<var>h</var><sup>enc</sup>"),
        ("x_{t+n}", "$x_{t+n}$", "<var>x</var><sub>t+n</sub>"),
        ("y_<t", "$y_{<t}$", "<var>y</var><sub>&lt;t</sub>"),
        ("Σ_i α_i", "Σ$_{i}$ $α_{i}$", "Σ<sub>i</sub> <var>α</var><sub>i</sub>"),
        (
            "10000^(2k/size) (P_n)^(1/N)",
            r"10000$^{2k/\mathrm{size}}$ ($P_{n}$)$^{1/N}$",
            "10000<sup>2k/size</sup> (<var>P</var><sub>n</sub>)<sup>1/N</sup>",
        ),
        ("A", "$A$", "<var>A</var>"),
        ("A key has a length", "A key has a length", "A key has a length"),
        ("n_best costs $5", r"n_best costs \$5", "n_best costs $5"),
        ("$x_1$", r"\$$x_{1}$\$", "$<var>x</var><sub>1</sub>$"),
        ("it's <b>", "it's <$b$>", "it&#39;s &lt;<var>b</var>&gt;"),
        ("", "", ""),
    ],
)
def test_symbols_are_typeset_and_words_are_not(text: str, in_figures: str, in_pages: str) -> None:
    assert mathtext(text) == in_figures
    assert html(text) == in_pages


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", '" x_1="', "x_{<b>}", "</sub>_i"])
def test_html_is_safe(text: str) -> None:
    page = str(html(text))
    for tag in ("var", "sub", "sup"):
        page = page.replace(f"<{tag}>", "").replace(f"</{tag}>", "")
    assert not set(page) & set("<>\"'")


def test_only_formulas_are_typeset() -> None:
    assert typeset_html(Formula("W_q")) == "<var>W</var><sub>q</sub>"
    assert typeset_html("W_q<") == "W_q&lt;"
    assert figure_text("$x_1$")[0] == "$x_1$"
    assert not figure_text("$x_1$")[1]["parse_math"]
    assert figure_text(Formula("x_1"))[1]["parse_math"]


@pytest.mark.parametrize("text", [r"\alpha $\frac{ x_1", "$", "$$ x_1 $", r"\$ q_t", "x_{a_b} {", "x^(1", "%&#~ e_ti"])
def test_any_text_can_be_drawn(text: str) -> None:
    figure = Figure()
    content, style = figure_text(Formula(text))
    figure.text(0.5, 0.5, content, **style)
    for suffix in figures.METADATA:
        figures.render_figure(figure, suffix)
