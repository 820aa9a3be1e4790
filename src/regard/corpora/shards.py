"""Corpora in several files: `train.*.de` and `train.*.en`, in which `*` stands for the name of a shard."""

from __future__ import annotations

import os
from pathlib import Path

from regard.corpora.rows import TABLE_SUFFIXES
from regard.errors import UserError

WILDCARD = "*"


def is_pattern(path: Path) -> bool:
    """True if a path has a `*` in the name of its file, and is not itself a file with such a name.

    Args:
        path: A path.
    """
    return WILDCARD in path.name and not os.path.lexists(path)


def find_shards(source: Path, target: Path | None) -> list[tuple[Path, Path | None]]:
    """The files of sources and targets, shard by shard, in the order of the texts that `*` stands for, or of a folder.

    Texts are compared character by character, as a shell does: 10 is before 2. A shard may also end in .gz. Whether the
    files can be read is not checked.

    Args:
        source: The file of the sources, or of both, or a pattern, or a folder of files with both sides.
        target: The file of the targets, or a pattern; None if `source` has both.

    Raises:
        UserError: No file matches a pattern, a shard is missing on one side, or only one side is a pattern.
    """
    if target is None and os.path.isdir(source):
        return [(path, None) for path in find_tables(source)]
    paths = [source] if target is None else [source, target]
    if not any(map(is_pattern, paths)):
        return [(source, target)]
    for path in paths:
        if path.name.count(WILDCARD) != 1:
            raise UserError(f"{path}: the names of shards have one *, on both sides: train.*.de and train.*.en")
    sides = [_matching_files(path) for path in paths]
    for path, own, others in zip(paths, sides, reversed(sides), strict=True):
        if not own:
            raise UserError(f"there is no {path}, nor {path}.gz")
        if missing := sorted(others.keys() - own.keys()):
            name = path.with_name(path.name.replace(WILDCARD, missing[0]))
            more = f"; {len(missing):,} shards lack theirs" if len(missing) > 1 else ""
            raise UserError(f"{others[missing[0]]}: there is no {name}, nor {name}.gz, for this shard{more}")
    return [(own, sides[-1][shard] if target else None) for shard, own in sorted(sides[0].items())]


def find_tables(folder: Path) -> list[Path]:
    """The files of a data set that Hugging Face's `datasets` has saved: *.arrow, or else *.parquet, by their names.

    Args:
        folder: The folder of one split.

    Raises:
        UserError: There is no such file.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "cache-")))
    except OSError as error:
        raise UserError(f"{folder}: cannot be read: {error.strerror}") from None
    for suffix in reversed(TABLE_SUFFIXES):
        if found := [folder / name for name in names if name.endswith(suffix)]:
            return found
    splits = [name for name in names if (folder / name).is_dir()]
    inside = f"; name one of its folders: {', '.join(splits[:10])}" if splits else ""
    raise UserError(f"{folder}: this folder has no .arrow or .parquet files{inside}")


def _matching_files(pattern: Path) -> dict[str, Path]:
    """The files that match a pattern, by what `*` stands for; hidden files do not match it."""
    begin, _, end = pattern.name.partition(WILDCARD)
    try:
        names = [name for name in os.listdir(pattern.parent) if begin or not name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a name with a NUL character
        return {}
    except OSError as error:
        raise UserError(f"{pattern.parent}: cannot be read: {error.strerror}") from None
    found = {}
    for name in sorted(names, reverse=True):  # a plain file is preferred, so it is after the compressed one
        suffix = f"{end}.gz" if name.endswith(f"{end}.gz") else end
        if name.startswith(begin) and name.endswith(suffix) and len(name) >= len(begin) + len(suffix):
            found[name[len(begin) : len(name) - len(suffix)]] = pattern.with_name(name)
    return found
