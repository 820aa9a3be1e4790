"""True alignments from a file: a line for each pair of texts, in the format of Moses, such as `0-0 1-2 2p1`.

A link is SOURCE-TARGET, in words between white space, counted from 0. `1-2` is a sure one, `1p2` or `1?2` only a
possible one: right to find, and no mistake to miss.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from regard.corpora.parallel_text import read_lines
from regard.errors import UserError

LINK = re.compile("([0-9]{1,6})([-p?])([0-9]{1,6})")

Link = tuple[int, int]  # (source, target), counted from 0, as in Moses


@dataclass(frozen=True)
class GoldAlignment:
    """What belongs together in a pair of texts."""

    sure: frozenset[Link]
    unsure: frozenset[Link] = frozenset()

    @property
    def possible(self) -> frozenset[Link]:
        """All that is right to find; sure links are possible, too."""
        return self.sure | self.unsure


def read_gold_alignments(
    path: Path, words: Sequence[tuple[int, int]], *, more: bool = False
) -> tuple[list[GoldAlignment], int]:
    """A truth for each pair of texts, and how many lines the file has.

    `words` has the number of words in source and target. With `more`, these are the first pairs of several, and the
    file may go on.
    """
    truths: list[GoldAlignment] = []
    count = 0
    with closing(read_lines(path)) as lines:
        for line in lines:
            count = line.number
            if count <= len(words):
                for problem in line.problems:
                    raise UserError(str(problem))
                truths.append(parse_alignment(line.text, *words[count - 1], origin=f"{path}, line {count}"))
    if count < len(words) or (count > len(words) and not more):
        raise UserError(
            f"{path}: has {count:,} lines, and there are {len(words):,} pairs of texts; each needs a line, which may "
            "be empty (for the first pairs only, say how many with --limit)"
        )
    return truths, count


def parse_alignment(text: str, source_words: int, target_words: int, origin: str) -> GoldAlignment:
    """The links of one line; `origin` is where it stands."""
    links: dict[str, set[Link]] = {"-": set(), "p": set(), "?": set()}
    for entry in text.split():
        match = LINK.fullmatch(entry)
        if match is None:
            raise UserError(
                f"{origin}: {entry[:20]!r} is no link; write SOURCE-TARGET, both counted from 0, such as 1-2, or 1p2 "
                "for a link that is only possible"
            )
        source, target = int(match[1]), int(match[3])
        for name, place, count in (("source", source, source_words), ("target", target, target_words)):
            if place >= count:
                raise UserError(
                    f"{origin}: {entry} names word {place} of the {name}, which has {count} between white space, "
                    f"0 to {count - 1}; a link is SOURCE-TARGET"
                )
        links[match[2]].add((source, target))
    return GoldAlignment(frozenset(links["-"]), frozenset((links["p"] | links["?"]) - links["-"]))
