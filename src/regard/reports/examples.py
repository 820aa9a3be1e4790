"""A page of example sentences: why each was selected, its translation, and its attention map."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from regard import files
from regard.errors import UserError
from regard.plotting import attention_map, figures
from regard.reports.example_selection import ExampleSentence, SelectedExample, SelectionCriterion, select_examples
from regard.reports.pages import Image, render_page

PAGE = "index.html"
GUIDE = (
    "Each picture is an attention map: an output word is a row, a source word a column, and the darker a cell, the "
    "more the model attended to that source word when it generated that output word. A word that consists of several "
    "subwords has a bracket. Measures are computed over words, without end-of-sentence tokens and punctuation."
)
NO_ATTENTION = "This model has no attention, so there are no attention maps, only translations."
NO_SENTENCES = "There are no sentences to show."


@dataclass(frozen=True)
class ExampleArticle:
    """One example on the page.

    Args:
        sentence: The sentence.
        summary: Why it was selected.
        image: Its attention map; None without attention.
        previous: Number of the previous example on the page.
        next: Number of the next example on the page.
    """

    sentence: ExampleSentence
    summary: str
    image: Image | None
    previous: int | None
    next: int | None

    @property
    def alt(self) -> str:
        tokens, source_tokens = len(self.sentence.tokens), len(self.sentence.source_tokens)
        return f"attention of {tokens} output tokens to {source_tokens} source tokens"


@dataclass(frozen=True)
class ExampleGroup:
    """The examples that were selected by one criterion.

    Args:
        criterion: The criterion.
        examples: The examples.
    """

    criterion: SelectionCriterion
    examples: list[ExampleArticle]


def write_examples(
    folder: Path,
    sentences: Sequence[ExampleSentence],
    title: str,
    facts: Mapping[str, str],
    on_progress: Callable[[int], None] = lambda pictures: None,
) -> None:
    """Write `index.html` and its pictures, and replace an older folder of examples.

    The folder is written under a temporary name and renamed at the end, so that it is never incomplete.

    Args:
        folder: Where to write; an existing folder is replaced only if it contains an `index.html`.
        sentences: Sentences to select from.
        title: The heading of the page.
        facts: Names and values that are listed below the heading, such as scores.
        on_progress: Called with 1 after each picture.

    Raises:
        UserError: If the folder holds something else, or cannot be written.
    """
    if folder.exists() and not (folder / PAGE).exists():
        raise UserError(f"{folder}: this is not a folder of examples (it has no {PAGE}), so it is not replaced")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with files.scratch_folder(folder) as scratch:
            draft = scratch / files.NEW
            draft.mkdir()
            _write_files(draft, sentences, title, facts, on_progress)
            if folder.exists():
                folder.rename(scratch / files.OLD)
            draft.rename(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the examples: {error.strerror or error}") from error


def _write_files(
    folder: Path,
    sentences: Sequence[ExampleSentence],
    title: str,
    facts: Mapping[str, str],
    on_progress: Callable[[int], None],
) -> None:
    selected = select_examples(sentences)
    images: dict[int, Image] = {}
    for sentence in (each.sentence for each in selected if each.sentence.has_attention):
        picture, name = _attention_picture(sentence), f"sentence-{sentence.number}.svg"
        images[sentence.number] = Image.at(name, picture)
        files.write_atomic(folder / name, picture)
        on_progress(1)
    page = _examples_page(selected, images, _guide_text(sentences), title, facts)
    files.write_atomic(folder / PAGE, page.encode("utf-8"))


def _guide_text(sentences: Sequence[ExampleSentence]) -> str:
    if not sentences:
        return NO_SENTENCES
    return GUIDE if any(sentence.has_attention for sentence in sentences) else NO_ATTENTION


def _attention_picture(sentence: ExampleSentence) -> bytes:
    figure = attention_map.draw_attention_map(
        sentence.weights,
        sentence.source_tokens,
        sentence.tokens,
        starts=sentence.starts,
        source_starts=sentence.source_starts,
    )
    return figures.render_figure(figure, ".svg")


def _examples_page(
    selected: Sequence[SelectedExample], images: Mapping[int, Image], guide: str, title: str, facts: Mapping[str, str]
) -> str:
    numbers = [each.sentence.number for each in selected]
    articles = [
        (each.criterion, _article(each, images.get(each.sentence.number), previous, following))
        for each, previous, following in zip(selected, [None, *numbers], [*numbers[1:], None], strict=False)
    ]
    groups = [
        ExampleGroup(criterion, [article for _, article in group])
        for criterion, group in groupby(articles, lambda pair: pair[0])
    ]
    return render_page("examples.html", title=title, facts=facts, guide=guide, groups=groups)


def _article(
    selected: SelectedExample, image: Image | None, previous: int | None, following: int | None
) -> ExampleArticle:
    return ExampleArticle(selected.sentence, selected.caption, image, previous, following)
