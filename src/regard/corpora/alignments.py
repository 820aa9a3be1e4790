"""Gold alignments from a file: a line for each pair of texts, in the format of Moses, such as `0-0 1-2 2p1`.

A link is SOURCE-TARGET, in words between white space, counted from 0. `1-2` is a sure link, `1p2` or `1?2` a possible
one: correct if found, and no error if missed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from regard.corpora.text_lines import read_lines
from regard.errors import UserError

LINK = re.compile("([0-9]{1,6})([-p?])([0-9]{1,6})")

Link = tuple[int, int]  # (source, target), counted from 0, as in Moses


@dataclass(frozen=True)
class GoldAlignment:
    """The gold alignment of a pair of texts.

    Args:
        sure: Links that have to be found.
        unsure: Further links that may be found.
    """

    sure: frozenset[Link]
    unsure: frozenset[Link] = frozenset()

    @property
    def possible(self) -> frozenset[Link]:
        """All correct links, sure or not."""
        return self.sure | self.unsure


def read_gold_alignments(
    path: Path, words: Sequence[tuple[int, int]], *, more: bool = False
) -> tuple[list[GoldAlignment], int]:
    """The gold alignment of each pair of texts, and the number of lines in the file.

    Args:
        path: The file.
        words: The number of source and target words of each pair.
        more: Whether the file may have more lines than there are pairs.

    Raises:
        UserError: If a line cannot be parsed or names a missing word, or if the number of lines is wrong.
    """
    alignments: list[GoldAlignment] = []
    count = 0
    with closing(read_lines(path)) as lines:
        for line in lines:
            count = line.number
            if count <= len(words):
                for problem in line.problems:
                    raise UserError(str(problem))
                alignments.append(parse_alignment(line.text, *words[count - 1], origin=f"{path}, line {count}"))
    if count < len(words) or (count > len(words) and not more):
        raise UserError(
            f"{path}: has {count:,} lines, and there are {len(words):,} pairs of texts; each needs a line, which may "
            "be empty (use --limit for the first pairs only)"
        )
    return alignments, count


def parse_alignment(text: str, source_words: int, target_words: int, origin: str) -> GoldAlignment:
    """The gold alignment in one line.

    Args:
        text: The line.
        source_words: The number of words in the source.
        target_words: The number of words in the target.
        origin: File and line, for messages.
    """
    links: dict[str, set[Link]] = {"-": set(), "p": set(), "?": set()}
    for entry in text.split():
        match = LINK.fullmatch(entry)
        if match is None:
            raise UserError(
                f"{origin}: {entry[:20]!r} is not a link; write SOURCE-TARGET, both counted from 0, such as 1-2, or "
                "1p2 for a link that is only possible"
            )
        source, target = int(match[1]), int(match[3])
        for name, index, count in (("source", source, source_words), ("target", target, target_words)):
            if index >= count:
                raise UserError(
                    f"{origin}: {entry} names word {index} of the {name}, which has {count} between white space, "
                    f"0 to {count - 1}; a link is SOURCE-TARGET"
                )
        links[match[2]].add((source, target))
    return GoldAlignment(frozenset(links["-"]), frozenset((links["p"] | links["?"]) - links["-"]))
