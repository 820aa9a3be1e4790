import re
from base64 import b64decode
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from regard.plotting import attention_map, figures
from regard.plotting.dot_plot import DotRow, draw_dots
from regard.plotting.symbols import Formula
from regard.reports.pages import TEMPLATES, environment
from regard.reports.report_page import (
    ComparedSentence,
    Picture,
    ReportPage,
    ReportSection,
    SystemOutput,
    Table,
    render_report,
)

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "</style></title><b>",
    '" onload="alert(1)',
    "' onload='alert(1)",
    "$title ${x}",
    "&lt;",
    "-->",
]
VOID = {"meta", "img"}
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Parsed(HTMLParser):
    """The parsed page: all tags with their attributes, the texts, and the tags that are not closed."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.opened: list[str] = []
        self.feed(page.decode("utf-8"))
        assert not self.opened, "tags that are never closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), "an attribute is given once"
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, tag: str, attribute: str) -> list[str]:
        return [found[attribute] or "" for name, found in self.tags if name == tag and attribute in found]

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def a_map(token: str = "a") -> bytes:
    return figures.render_figure(attention_map.draw_attention_map([[0.25, 0.75]], [token, "b"], [token]), ".svg")


def a_figure(label: str = "dot") -> Figure:
    return draw_dots([DotRow(label, (1.0, 2.0), (0.5, 2.5))], "BLEU")


def a_table(text: str = "text") -> Table:
    return Table((text, "BLEU", "verdict"), ((text, "12.3", text), ("other", "—", "worse")), text)


def a_sentence(text: str = "text") -> ComparedSentence:
    outputs = (
        SystemOutput(text, text, True, a_map(text), text),
        SystemOutput("no attention", "wrong", False, None),
        SystemOutput("third", " ", None, None),
    )
    return ComparedSentence(text, text, text, outputs)


def a_page(text: str = "text") -> ReportPage:
    blocks = (a_table(text), Picture(a_figure(text), text, text), a_sentence(text))
    return ReportPage(
        text, text, {text: text}, (ReportSection(text, (text, text), blocks), ReportSection("more", (), ()))
    )


def texts_of(page: bytes, tag: str, name: str) -> list[str]:
    return re.findall(f'<{tag}[^>]*class="{name}"[^>]*>([^<]*)<', page.decode())


def test_the_page_holds_its_pictures_with_their_sizes() -> None:
    parsed = Parsed(render_report(a_page()))
    sources = parsed.values("img", "src")
    assert len(sources) == 2
    assert parsed.values("img", "alt") == ["text", "attention of text"]
    sizes = zip(sources, parsed.values("img", "width"), parsed.values("img", "height"), strict=True)
    for source, width, height in sizes:
        kind, _, content = source.partition(",")
        assert kind == "data:image/svg+xml;base64"
        picture = ElementTree.fromstring(b64decode(content, validate=True))
        assert [round(float(side)) for side in picture.attrib["viewBox"].split()[2:]] == [int(width), int(height)]


def test_nothing_is_loaded_from_elsewhere_and_no_script_is_run() -> None:
    page = render_report(a_page())
    parsed = Parsed(page)
    assert POLICY in parsed.values("meta", "content")
    assert parsed.count("script") == parsed.count("link") == 0
    page_without_images = re.sub(rb"base64,[A-Za-z0-9+/=]*", b"", page)
    assert not re.search(rb"https?://|//|@import|url\(", page_without_images)
    assert not [name for _, found in parsed.tags for name in found if name.startswith("on")]


def test_all_links_resolve_to_sections() -> None:
    parsed = Parsed(render_report(a_page()))
    assert parsed.values("a", "href") == ["#section-1", "#section-2"]
    assert parsed.values("section", "id") == ["section-1", "section-2"]


def test_a_single_section_has_no_table_of_contents() -> None:
    parsed = Parsed(render_report(ReportPage("title", "", {}, (ReportSection("only", ("a", " "), ()),))))
    assert parsed.count("nav") == parsed.count("a") == parsed.count("dl") == 0
    assert parsed.count("p") == 1, "neither an empty lead nor an empty paragraph"
    assert Parsed(render_report(ReportPage("title", "lead", {}, ()))).count("section") == 0


@pytest.mark.parametrize("hostile", HOSTILE)
def test_texts_are_escaped(hostile: str) -> None:
    page = render_report(a_page(hostile))
    attacked, harmless = Parsed(page), Parsed(render_report(a_page()))
    assert [(tag, list(found)) for tag, found in attacked.tags] == [(tag, list(found)) for tag, found in harmless.tags]
    assert attacked.texts.count(hostile) == harmless.texts.count("text") == 19
    assert attacked.values("img", "alt") == [hostile, f"attention of {hostile}"]
    if "<" in hostile:
        assert hostile.encode() not in page
    for source in attacked.values("img", "src"):
        picture = ElementTree.fromstring(b64decode(source.partition(",")[2]))
        assert not [tag for tag in picture.iter() if tag.tag.endswith("script") or "onerror" in tag.attrib]


def test_texts_that_cannot_be_encoded_are_accepted() -> None:
    page = render_report(a_page("\ud800"))
    assert b"&#55296;" in page
    page.decode("utf-8")


def test_texts_of_any_direction_and_no_known_language() -> None:
    parsed = Parsed(render_report(ReportPage("title", "", {}, (ReportSection("s", (), (a_sentence("مرحبا"),)),))))
    texts = [found for _, found in parsed.tags if found.get("class") in ("source", "reference", "output")]
    assert len(texts) == 5
    assert all(found["dir"] == "auto" and found["lang"] == "" and found["translate"] == "no" for found in texts)


def test_outputs_are_marked_as_correct_or_wrong() -> None:
    page = render_report(a_page())
    assert texts_of(page, "span", "mark correct") == ["✓ correct"]
    assert texts_of(page, "span", "mark wrong") == ["✗ wrong"]
    page_text = Parsed(page).texts
    assert page_text.count("(nothing)") == 1, "the third output is empty"


def test_only_models_with_attention_have_a_map() -> None:
    assert Parsed(render_report(ReportPage("t", "", {}, (ReportSection("s", (), (a_sentence(),)),)))).count("img") == 1


def test_rows_and_columns_have_headers() -> None:
    parsed = Parsed(render_report(ReportPage("t", "", {}, (ReportSection("s", (), (a_table(),)),))))
    assert parsed.values("th", "scope") == ["col"] * 3 + ["row"] * 2
    assert parsed.count("td") == 4
    assert parsed.values("div", "class") == ["wide"], "it scrolls in its own box"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["12.3", "—", ""], True),
        (["+0.4 [0.1, 0.7]", "−3", "± 2 %", "[0.3, 0.4]", ".5", "<0.001"], True),
        (["12.3", "better"], False),
        (["—", ""], False),
        ([], False),
    ],
)
def test_columns_of_numbers_are_right_aligned(cells: list[str], expected: bool) -> None:
    table = Table(("1", "2"), tuple(("3", cell) for cell in cells))
    parsed = Parsed(render_report(ReportPage("t", "", {}, (ReportSection("s", (), (table,)),))))
    columns = [found.get("class") for tag, found in parsed.tags if tag in ("th", "td")]
    assert set(columns[0::2]) == {None}, "the first names the rows"
    assert set(columns[1::2]) == {"number" if expected else None}


def test_tables_may_be_empty_or_uneven() -> None:
    for table in (Table((), ()), Table(("a",), ()), Table(("a", "b"), (("1",), ("1", "2", "3")))):
        Parsed(render_report(ReportPage("t", "", {}, (ReportSection("s", (), (table,)),))))


def test_the_same_page_gives_the_same_bytes() -> None:
    page = a_page()
    assert render_report(page) == render_report(page) == render_report(a_page())


def test_pages_share_their_style() -> None:
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8").strip()
    assert style in render_report(a_page()).decode()
    for template in ("examples.html", "report.html"):
        assert '{% include "page.css" %}' in (TEMPLATES / template).read_text(encoding="utf-8")


def test_symbols_are_typeset_in_formulas_and_not_in_texts() -> None:
    table = Table((Formula("W_q"), "W_q"), ((Formula("q_1"), "<b>"),), Formula("e_ti = q_t · k_i"))
    section = ReportSection("s", (Formula("α_ti < 1"), "α_ti"), (table,))
    page = render_report(ReportPage(Formula("W_k"), "", {}, (section,))).decode()
    assert '<th scope="col" dir="auto"><var>W</var><sub>q</sub></th>' in page
    assert '<th scope="col" dir="auto">W_q</th>' in page
    assert "<var>e</var><sub>ti</sub> = <var>q</var><sub>t</sub>" in page
    assert '<p dir="auto"><var>α</var><sub>ti</sub> &lt; 1</p>' in page
    assert '<p dir="auto">α_ti</p>' in page
    assert "<title>W_k</title>" in page
    assert '<h1 dir="auto"><var>W</var><sub>k</sub></h1>' in page


def test_every_template_escapes() -> None:
    assert environment().autoescape is True
    for name in TEMPLATES.glob("*.html"):
        text = name.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape", re.sub(r"\{#.*?#\}", "", text, flags=re.DOTALL)), name


def test_a_table_prints_as_aligned_text_and_escapes_controls() -> None:
    table = Table(("name", "score"), (("a\x1b[31m", "1.5"), ("long name",)), caption="scores")
    assert str(table).splitlines() == ["scores", "name       score", "a\\x1b[31m    1.5", "long name"]


def test_a_table_is_escaped_html_in_a_notebook() -> None:
    for text in HOSTILE:
        html = Table((text, "x"), ((text, text),), caption=text)._repr_html_()
        assert {tag for tag, _ in Parsed(html.encode()).tags} <= {
            *("div", "table", "caption", "thead", "tbody", "tr", "th", "td")
        }
