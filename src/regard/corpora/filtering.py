"""Filtering a corpus: the pairs that are sound, within limits and, if wanted, not repeated, in new files.

Memory is needed only to recognize duplicates: about 80 bytes for each different pair. Pairs with the same hash of 64
bits are considered equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.corpora.check_report import LineSummary
from regard.corpora.check_text import line_numbers
from regard.corpora.limits import PairLimits
from regard.corpora.pair_writers import open_writer
from regard.corpora.parallel_text import Columns, find_columns, scan_pairs
from regard.corpora.rows import ProblemKind, ScannedPair
from regard.corpora.shards import find_shards
from regard.errors import UserError

FIRST = 5  # line numbers listed of each reason
REPORT_EVERY = 1_000  # pairs between two calls of `advance`
DUPLICATE = "duplicate pair"


@dataclass(frozen=True)
class FilterReport:
    """The result of filtering a corpus.

    Args:
        files: The files that were read.
        outputs: The files that were written.
        pairs: Number of pairs that were read.
        kept: Number of pairs that were written.
        left_out: The other pairs, by the first reason that applies. Line numbers count through all shards.
    """

    files: tuple[str, ...]
    outputs: tuple[str, ...]
    pairs: int
    kept: int
    left_out: dict[str, LineSummary]

    def to_dict(self) -> dict[str, Any]:
        """All findings as values that JSON has."""
        return asdict(self)

    def __str__(self) -> str:
        width = len(f"{self.pairs:,}")
        rows = [f"{lines.count:{width},}  {reason}: {line_numbers(lines)}" for reason, lines in self.left_out.items()]
        kept = f"{self.kept:{width},}  kept, {self.kept / self.pairs:.1%}: {', '.join(self.outputs)}"
        return "\n".join([f"{', '.join(self.files)}: {self.pairs:,} pair{'s' * (self.pairs != 1)}", *rows, kept])


class PairFilter:
    """Decides which pairs of a corpus to keep, and counts the others.

    Args:
        limits: Pairs that exceed these are left out, as invalid ones are.
        deduplicate: Whether to leave out pairs that have occurred before.
    """

    def __init__(self, limits: PairLimits, deduplicate: bool) -> None:
        self.limits, self.deduplicate = limits, deduplicate
        self._lines: dict[str, tuple[int, tuple[int, ...]]] = {}  # the number of pairs and the first lines
        self.pairs = self.kept = 0
        self._known: set[int] = set()

    def apply(self, rows: Iterable[ScannedPair]) -> Iterator[ScannedPair]:
        """The pairs to keep.

        Args:
            rows: All pairs.

        Raises:
            UserError: The numbers of lines differ, so that it is unknown which belong together; or no pair is left.
        """
        for row in rows:
            self.pairs += 1
            reason = self._reason(row)
            if reason is None:
                self.kept += 1
                yield row
                continue
            count, first = self._lines.get(reason, (0, ()))
            self._lines[reason] = count + 1, (*first, self.pairs) if count < FIRST else first

    @property
    def left_out(self) -> dict[str, LineSummary]:
        """The pairs that were left out, by the reason, the most frequent first."""
        frequent = sorted(self._lines.items(), key=lambda found: -found[1][0])
        return {reason: LineSummary(count, first) for reason, (count, first) in frequent}

    def _reason(self, row: ScannedPair) -> str | None:
        for problem in row.problems:
            if problem.kind is ProblemKind.LINES_DIFFER:
                raise UserError(str(problem))
            return problem.kind.value
        if reason := self.limits.exceeded(row.source, row.target):
            return reason
        if self.deduplicate:
            key = hash((row.source, row.target))
            if key in self._known:
                return DUPLICATE
            self._known.add(key)
        return None


def filter_parallel_text(
    files: tuple[Path, Path | None],
    out: Path,
    pair_filter: PairFilter,
    columns: Columns | None = None,
    max_lines: int | None = None,
    advance: Callable[[int], None] = lambda rows: None,
) -> FilterReport:
    """Write the pairs of a corpus that a filter keeps to new files of the same format.

    Args:
        files: The files of sources and targets, as for `scan_pairs`.
        out: The beginning of the names of the new files, whose endings are those of `files`.
        pair_filter: The filter.
        columns: The names of source and target; see `scan_pairs`.
        max_lines: Most lines of a compressed file; see `read_lines`.
        advance: Is called with the number of pairs read since the last call.

    Raises:
        UserError: A file cannot be read or written, or no pair is left. Nothing is written then.
    """
    shards = find_shards(*files)
    columns = columns or (find_columns(shards[0][0]) if files[1] is None else None)
    inputs = [path for shard in shards for path in shard if path]
    with (
        open_writer(files, out, inputs, columns or ("source", "target")) as writer,
        closing(scan_pairs(*files, columns, max_lines)) as rows,
    ):
        reported = 0
        for row in pair_filter.apply(rows):
            writer.write(row.source, row.target)
            if pair_filter.pairs - reported >= REPORT_EVERY:
                advance(pair_filter.pairs - reported)
                reported = pair_filter.pairs
        advance(pair_filter.pairs - reported)
        if not pair_filter.kept:
            raise UserError(f"{files[0]}: no pair is left of {pair_filter.pairs:,}; nothing is written")
    names = tuple(str(path) for path in files if path)
    outputs = tuple(str(path) for path in writer.paths)
    return FilterReport(names, outputs, pair_filter.pairs, pair_filter.kept, pair_filter.left_out)
