"""A page of examples: the sentences that show something, why they were chosen, and where the model looked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from regard import files
from regard.errors import UserError
from regard.plotting import attention_map, figures
from regard.reports import pages
from regard.reports.example_selection import ExampleSentence, SelectedExample, SelectionCriterion, select_examples

PAGE = "index.html"
TEMPLATE = Path(__file__).with_name("examples.html")
GUIDE = (
    "Each picture is a map of attention: an output word is a row, a source word a column, and the brighter a cell, the "
    "more the model looked at that source word when it wrote that output word. A word that was read or written in "
    "pieces has a bracket. Measures go by words, and leave out ends and punctuation."
)
NO_ATTENTION = "This model has no attention: it looks nowhere, so there are no maps, only translations."
NO_SENTENCES = "There are no sentences to show."


def write_examples(
    folder: Path,
    shown: Sequence[ExampleSentence],
    title: str,
    facts: Mapping[str, str],
    advance: Callable[[int], None] = lambda pictures: None,
) -> None:
    """Write `index.html` and its pictures, in place of an older folder of examples; `advance` is told of each.

    The folder appears whole: it is made beside its place, under another name, and then renamed.
    """
    if folder.exists() and not (folder / PAGE).exists():
        raise UserError(f"{folder}: this is no folder of examples, so it is not replaced")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as workshop:
            draft = Path(workshop) / "new"
            draft.mkdir()
            _fill(draft, shown, title, facts, advance)
            if folder.exists():
                folder.rename(Path(workshop) / "old")
            draft.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the examples: {error.strerror or error}") from error


def _fill(
    folder: Path,
    shown: Sequence[ExampleSentence],
    title: str,
    facts: Mapping[str, str],
    advance: Callable[[int], None],
) -> None:
    chosen = select_examples(shown)
    pictures: dict[int, bytes] = {}
    for each in (each.shown for each in chosen if each.shown.looks):
        pictures[each.number] = _draw(each)
        files.write_atomic(folder / _file_name(each.number), pictures[each.number])
        advance(1)
    files.write_atomic(folder / PAGE, _page(chosen, pictures, _guide(shown), title, facts))


def _guide(shown: Sequence[ExampleSentence]) -> str:
    if not shown:
        return NO_SENTENCES
    return GUIDE if any(each.looks for each in shown) else NO_ATTENTION


def _draw(shown: ExampleSentence) -> bytes:
    figure = attention_map.draw_attention_map(
        shown.weights,
        shown.source_tokens,
        shown.tokens,
        starts=shown.starts,
        source_starts=shown.source_starts,
    )
    return figures.render_figure(figure, ".svg")


def _file_name(number: int) -> str:
    return f"sentence-{number}.svg"


def _page(
    chosen: Sequence[SelectedExample], pictures: Mapping[int, bytes], guide: str, title: str, facts: Mapping[str, str]
) -> bytes:
    """The whole page. Whatever comes from outside is escaped where it is put in."""
    numbers = [each.shown.number for each in chosen]
    articles = [
        (each.reason, _article(each, pictures.get(each.shown.number), previous, following))
        for each, previous, following in zip(chosen, [None, *numbers], [*numbers[1:], None], strict=False)
    ]
    groups = [
        (f"group-{place}", reason, [article for _, article in group])
        for place, (reason, group) in enumerate(groupby(articles, lambda pair: pair[0]), start=1)
    ]
    return pages.fill(
        TEMPLATE,
        title=escape(title),
        facts=pages.describe(facts),
        guide=escape(guide),
        contents="\n".join(
            f'<li><a href="#{place}">{escape(reason.title)}</a> ({len(group)})</li>' for place, reason, group in groups
        ),
        sections="\n".join(_section(place, reason, group) for place, reason, group in groups),
    )


def _section(place: str, reason: SelectionCriterion, articles: Sequence[str]) -> str:
    head = f'<section id="{place}">\n<h2>{escape(reason.title)}</h2>\n<p>{escape(reason.explanation)}</p>'
    return "\n".join([head, *articles, "</section>"])


def _article(chosen: SelectedExample, picture: bytes | None, previous: int | None, following: int | None) -> str:
    """One example. The links to its neighbours are for those who do not leaf by keyboard."""
    shown = chosen.shown
    links = [(previous, "←", "previous"), (following, "→", "next")]
    score = f"score {shown.score:.1f}"
    told = chosen.told if chosen.told == score else f"{chosen.told} · {score}"
    return f"""<article id="sentence-{shown.number}">
<header><h3>Sentence {shown.number}</h3><span>{escape(told)}</span>
<nav>{" ".join(f'<a href="#sentence-{to}" aria-label="{name}">{arrow}</a>' for to, arrow, name in links if to)}</nav>
</header>
<dl>
{pages.quote_named("source", shown.source)}
{pages.quote_named("output", shown.output, note="(cut off at the largest length)" if shown.cut_off else "")}
{pages.quote_named("reference", shown.reference)}
</dl>
{_image(shown, picture) if picture else ""}
</article>"""


def _image(shown: ExampleSentence, picture: bytes) -> str:
    """The picture on a white card."""
    name = _file_name(shown.number)
    alt = f"attention of {len(shown.tokens)} output tokens to {len(shown.source_tokens)} source tokens"
    return f'<a class="picture" href="{name}">{pages.show(name, picture, alt, lazy=True)}</a>'
