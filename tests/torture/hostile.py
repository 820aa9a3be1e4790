"""Hostile values, and mutations of documents: of their values and keys, of their lines, of their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml

from torture.hostile_values import BOOLEANS, CHUNKS, EXTREME_NUMBERS, KEYS, LINES, NAMES

MARK = "HOSTILE-VALUE-HERE"  # stands for a raw value while a document is dumped

Path = tuple[Any, ...]


def places(tree: Any, at: Path = ()) -> list[Path]:
    """The paths of all values in a tree of mappings and lists; of a long list, only the first and the last values."""
    found = [at]
    if isinstance(tree, dict):
        keys = list(tree)
    elif isinstance(tree, list):
        keys = sorted({*range(min(3, len(tree))), *range(max(0, len(tree) - 1), len(tree))})
    else:
        keys = []
    for key in keys:
        found += places(tree[key], (*at, key))
    return found


def mutate_values(tree: Any, number: int, values: Sequence[str], dump: Callable[[Any], str]) -> str:
    """A document with one value replaced by a hostile one: the `number`-th of all combinations, in a mixed order.

    Args:
        tree: The document.
        number: The number of the combination.
        values: Raw texts of hostile values.
        dump: Writes a tree as text, a string in double quotes or none.
    """
    where = places(tree)
    index = number * 7_919 % (len(where) * len(values))  # 7,919 is a prime: every combination comes up
    return _insert(dump(_replaced(tree, where[index % len(where)], MARK)), MARK, values[index // len(where)])


def mutate_settings(tree: Any, random: Random, dump: Callable[[Any], str]) -> str:
    """A document with a few values replaced by others of the same type, extreme ones among them.

    Args:
        tree: The document.
        random: Chooses.
        dump: Writes a tree as text.
    """
    leaves = [path for path in places(tree) if not isinstance(_at(tree, path), dict | list)]
    text = ""
    for path in random.sample(leaves, random.randint(1, 2)):
        old = _at(tree, path)
        values = NAMES if isinstance(old, str) else BOOLEANS if isinstance(old, bool) else EXTREME_NUMBERS
        text = _insert(dump(_replaced(tree, path, MARK)), MARK, random.choice(values))
        tree = yaml.safe_load(text)
    return text


def _insert(text: str, mark: str, value: str) -> str:
    for quoted in (f'"{mark}"', f"'{mark}'", mark):
        if quoted in text:
            return text.replace(quoted, value)
    return text


def _replaced(tree: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    key, *rest = path
    if isinstance(tree, dict):
        return {k: _replaced(v, tuple(rest), value) if k == key else v for k, v in tree.items()}
    return [_replaced(v, tuple(rest), value) if k == key else v for k, v in enumerate(tree)]


def mutate_keys(tree: Any, random: Random, dump: Callable[[Any], str]) -> str:
    """A document with a key removed, renamed, added, repeated or moved."""
    mappings = [path for path in places(tree) if isinstance(_at(tree, path), dict) and _at(tree, path)]
    if not mappings:
        return dump(tree)
    path = random.choice(mappings)
    mapping = dict(_at(tree, path))
    key = random.choice(list(mapping))
    operation = random.choice(("remove", "rename", "add", "repeat", "move", "merge"))
    if operation == "remove":
        del mapping[key]
    elif operation == "rename":
        mapping = {random.choice(KEYS) if k == key else k: v for k, v in mapping.items()}
    elif operation == "add":
        mapping[random.choice(KEYS)] = random.choice((None, 1, {}, [], "text", mapping[key]))
    elif operation == "repeat":
        mapping[MARK] = mapping[key]
    elif operation == "move":
        mapping = {k: dict(mapping) if k == key else v for k, v in mapping.items()}
    else:
        other = _at(tree, random.choice(mappings))
        mapping |= other
    return dump(_replaced(tree, path, mapping)).replace(MARK, str(key))


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def mutate_lines(text: str, random: Random) -> str:
    """A text with lines removed, repeated, swapped, indented, joined, or hostile lines added."""
    lines = text.split("\n")
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        match random.randrange(7):
            case 0:
                del lines[at]
                lines = lines or [""]
            case 1:
                lines.insert(at, lines[random.randrange(len(lines))])
            case 2:
                other = random.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = random.choice((" ", "    ", "\t", "- ", "# ")) + lines[at]
            case 4:
                lines[at] = lines[at].lstrip()
            case 5:
                lines[at : at + 2] = ["".join(lines[at : at + 2])]
            case _:
                lines.insert(at, random.choice(LINES))
    return "\n".join(lines)


def mutate_bytes(content: bytes, random: Random) -> bytes:
    """Bytes that are flipped, removed, repeated, overwritten, inserted, truncated, or in another encoding."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 5, 20))):
        at = random.randrange(len(data) + 1)
        length = min(random.choice((1, 1, 2, 4, 8, 64, 1000)), len(data) - at)
        match random.randrange(8):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length] * random.choice((1, 2, 50))
            case 3:
                data[at : at + length] = random.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * length
            case 4:
                data[at:at] = random.choice(CHUNKS) * random.choice((1, 1, 3))
            case 5:
                data[at : at + length] = random.randbytes(length)
            case 6 if random.random() < 0.3:
                del data[at:]
            case _:
                data[at:at] = random.randbytes(random.randint(1, 9))
    return bytes(data)


def recode(content: bytes, random: Random) -> bytes:
    """A text in another encoding, with other line ends, or not a text at all."""
    text = content.decode(errors="replace")
    match random.randrange(9):
        case 0:
            return text.encode("utf-16")
        case 1:
            return text.encode("utf-32")
        case 2:
            return text.encode("latin-1", errors="replace") + b"\xe9\n"
        case 3:
            return b"\xef\xbb\xbf" * random.randint(1, 3) + content
        case 4:
            return content.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\r", b"\x0b", b"\xe2\x80\xa8", b"\x85")))
        case 5:
            return content.replace(b" ", random.choice((b"\x00", b"\xc2\xa0", b"\xe2\x80\x8b", b"\t", b"\xe3\x80\x80")))
        case 6:
            return random.randbytes(random.choice((1, 10, 1_000, 100_000)))
        case 7:
            return random.choice((b"", b"\n", b" ", b"\x00", b"\n" * 100_000, b"\x00" * 100_000, b"[" * 50_000))
        case _:
            return content * random.choice((2, 20))


def dump_json(tree: Any) -> str:
    """A tree as JSON, in which `NaN` is permitted."""
    return json.dumps(tree, ensure_ascii=False)


def dump_yaml(tree: Any) -> str:
    """A tree as YAML, in the order of its keys."""
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=10**6)
