"""Records of two named texts, as in JSON lines and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.corpora.rows import Problem, ProblemKind, ScannedPair, TextLine, empty_problems
from regard.corpora.text_lines import MAX_BYTES, parse_text
from regard.errors import UserError

NESTED = "translation"  # the column of Hugging Face's translation data sets, which contains one text per language


def only_two(names: Sequence[str], path: Path) -> tuple[str, str]:
    """The columns of source and target if a file has no other texts.

    Args:
        names: The columns that contain texts.
        path: The file.

    Raises:
        UserError: There are not two.
    """
    if len(names) == 2:
        return names[0], names[1]
    found = f"has the columns {', '.join(names[:20])}" if names else "has no columns of texts"
    raise UserError(f"{path}: {found}; name those of source and target (--columns de,en)")


def pair_of_contents(contents: Sequence[bytes | None], path: Path, number: int) -> ScannedPair:
    """A pair whose texts are not lines of a text file, with the problems that lines would have.

    Args:
        contents: The source and the target in UTF-8; None counts as empty.
        path: The file.
        number: The number of the line or row.
    """
    one, other = (_text_of(content or b"", path, number) for content in contents)
    texts = one.text.strip(), other.text.strip()
    problems = one.problems + other.problems + empty_problems(texts, number, (path, path))
    return ScannedPair(number, *texts, problems, one.handled + other.handled)


def _text_of(content: bytes, path: Path, number: int) -> TextLine:
    line = parse_text(content[:MAX_BYTES], path, number, len(content) <= MAX_BYTES)
    if "\n" not in line.text.strip():
        return line
    # In other formats, a line break would end the text.
    problem = Problem(ProblemKind.LINE_BREAK, path, number, "the text has a line break")
    text = " ".join(part.strip() for part in line.text.split("\n"))
    return line._replace(text=text, handled=(*line.handled, problem))
