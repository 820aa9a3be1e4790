"""Reading pairs of texts: two files line by line, or one with both texts in each line or row; also in shards.

`scan_pairs` continues after a problem and reports it; `read_pairs` stops there. `regard data check`, `regard data
filter` and training read files with the same code, so that they agree about the content.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from regard.corpora import json_lines, table_files
from regard.corpora.json_lines import JSON_SUFFIXES, scan_json_lines
from regard.corpora.limits import NO_LIMITS, PairLimits
from regard.corpora.rows import SKIPPABLE, TABLE_SUFFIXES, Problem, ProblemKind, ScannedPair, TextLine, empty_problems
from regard.corpora.shards import find_shards
from regard.corpora.table_files import scan_table
from regard.corpora.text_lines import read_lines
from regard.errors import UserError

Columns = tuple[str, str]
TSV_SUFFIXES = (".tsv", ".tsv.gz")
BOTH_SIDES = (*TSV_SUFFIXES, *JSON_SUFFIXES, *TABLE_SUFFIXES)  # of files with sources and targets


def has_both_sides(path: Path) -> bool:
    """True if a file has sources and targets, judged by its name, or if it is a folder of such files.

    Args:
        path: A file, a pattern of shards or a folder.
    """
    return path.name.endswith(BOTH_SIDES) or os.path.isdir(path)


def read_pairs(
    source: Path,
    target: Path | None,
    columns: Columns | None = None,
    *,
    skip: bool = False,
    limits: PairLimits = NO_LIMITS,
    left_out: Counter[str] | None = None,
) -> Generator[tuple[str, str]]:
    """Iterate over the pairs of texts in files.

    Args:
        source: The file of the sources, or one with both sides, or a pattern of shards, or a folder.
        target: The file of the targets, or a pattern; None if `source` has both.
        columns: The names of source and target in a file that names its columns; see `scan_pairs`.
        skip: Whether to leave out pairs with an empty text or an over-long line. Other problems make the whole file
            unreliable and are always an error.
        limits: Pairs that exceed these are left out.
        left_out: Counts pairs that are left out, by the reason.

    Raises:
        UserError: At the first problem, if there is no pair, or if a shard is missing.
    """
    found_any = False
    with closing(scan_pairs(source, target, columns)) as rows:
        for row in rows:
            for problem in row.problems:
                if not (skip and problem.kind in SKIPPABLE):
                    raise UserError(str(problem))
            reason = row.problems[0].kind.value if row.problems else limits.exceeded(row.source, row.target)
            if reason is None:
                found_any = True
                yield row.source, row.target
            elif left_out is not None:
                left_out[reason] += 1
    if not found_any:
        within = "" if limits == NO_LIMITS else " within data.limits"
        raise UserError(f"{source}: has no pair of texts{within}; at least one is needed")


def scan_pairs(
    source: Path, target: Path | None, columns: Columns | None = None, max_lines: int | None = None
) -> Generator[ScannedPair]:
    """Iterate over all pairs of texts in files, with their problems. The line numbers are those of each file.

    Args:
        source: The file of the sources, or one with both sides, or a pattern of shards, or a folder.
        target: The file of the targets, or a pattern; None if `source` has both.
        columns: The names of source and target in a file that names its columns; None if it has only two texts.
        max_lines: Most lines of a compressed file; see `read_lines`.

    Raises:
        UserError: A file cannot be read, or a shard is missing; see `find_shards`.
    """
    for one, other in find_shards(source, target):
        rows = _scan_both(one, columns, max_lines) if other is None else _side_by_side(one, other, max_lines)
        with closing(rows):
            yield from rows


def _scan_both(path: Path, columns: Columns | None, max_lines: int | None) -> Generator[ScannedPair]:
    columns = columns or find_columns(path)
    if columns and path.name.endswith(JSON_SUFFIXES):
        return scan_json_lines(path, columns, max_lines)
    if columns and path.name.endswith(TABLE_SUFFIXES):
        return scan_table(path, columns, max_lines)
    return _tab_separated(path, max_lines)


def find_columns(path: Path) -> Columns | None:
    """The names of source and target in a file that has only two texts, the source first; None if it names none.

    Args:
        path: A file with both sides.

    Raises:
        UserError: The file has other texts, too, or cannot be read.
    """
    if path.name.endswith(JSON_SUFFIXES):
        return json_lines.find_keys(path)
    return table_files.find_text_columns(path) if path.name.endswith(TABLE_SUFFIXES) else None


def _side_by_side(source: Path, target: Path, max_lines: int | None) -> Generator[ScannedPair]:
    with closing(read_lines(source, max_lines)) as sources, closing(read_lines(target, max_lines)) as targets:
        for one, other in zip_longest(sources, targets):
            if one is None:
                yield _without_partner(other, target, targets, source)
            elif other is None:
                yield _without_partner(one, source, sources, target)
            else:
                texts = (one.text.strip(), other.text.strip())
                problems = one.problems + other.problems + empty_problems(texts, one.number, (source, target))
                yield ScannedPair(one.number, *texts, problems, one.handled + other.handled)


def _without_partner(line: TextLine, path: Path, rest: Generator[TextLine], shorter: Path) -> ScannedPair:
    """The first line without a partner; the others are only counted, because their number helps to find the cause."""
    last = line.number + sum(1 for _ in rest)
    end = f"ends after line {line.number - 1}" if line.number > 1 else "has no lines"
    text = f"{shorter} {end}, this file after line {last}; each pair needs a line in both"
    return ScannedPair(line.number, "", "", (Problem(ProblemKind.LINES_DIFFER, path, line.number, text),))


def _tab_separated(path: Path, max_lines: int | None) -> Generator[ScannedPair]:
    with closing(read_lines(path, max_lines)) as lines:
        for line in lines:
            columns = line.text.split("\t") if line.text.strip(" ") else ["", ""]  # a blank line is an empty pair
            if len(columns) == 2:
                texts = (columns[0].strip(), columns[1].strip())
                problems = empty_problems(texts, line.number, (path, path))
            else:
                texts = (line.text.strip(), "")
                text = f"a line has two texts with a tab between them, but here {_tabs(len(columns) - 1)}"
                problems = (Problem(ProblemKind.COLUMNS, path, line.number, text),)
            if any(problem.kind is ProblemKind.TOO_LONG for problem in line.problems):
                problems = ()  # the rest of the line, with its columns, is unknown
            yield ScannedPair(line.number, *texts, line.problems + problems, line.handled)


def _tabs(count: int) -> str:
    return "is no tab" if count == 0 else f"are {count} tabs"
