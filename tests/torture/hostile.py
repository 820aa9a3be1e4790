"""Hostile values, and mutations of documents: of their values and keys, of their lines, of their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml

MARK = "HOSTILE-VALUE-HERE"  # stands for a raw value while a document is dumped

# Values of JSON, as text: some of them no library would write.
JSON_VALUES = (
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "-0.0",
    "0.5",
    "1e308",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "2147483648",
    "9223372036854775808",
    "18446744073709551616",
    "-9223372036854775809",
    "9" * 400,
    "1" + "0" * 4999,
    "1." + "3" * 400,
    '""',
    '" "',
    '"none"',
    '"\\u0000"',
    '"\\ud800"',
    '"\\u001b[31m\\u001b]0;x\\u0007"',
    '"\\u202egnp.exe"',
    '"\\u2028\\n\\r\\n"',
    '"../../victim"',
    '"/dev/zero"',
    json.dumps("x" * 50_000),
    "[]",
    "{}",
    "[[]]",
    "[null]",
    '{"": null}',
    '{"a": 1, "a": 2}',
    "[" * 2_000,
    "[" * 2_000 + "]" * 2_000,
    '{"a":' * 2_000 + "1" + "}" * 2_000,
    json.dumps(list(range(5_000))),
    "'single'",
    "// comment",
    "",
)
# Values of YAML besides those of JSON.
YAML_VALUES = (
    "~",
    "yes",
    "0x1F",
    "0o17",
    "0b" + "1" * 2_000,
    "1_000_000",
    "190:20:30",
    ".inf",
    "-.inf",
    ".nan",
    "1e999",
    "1e-999",
    "12345678901234567890",
    "1000000000",
    "16384",
    "1000000",
    "-5",
    "0.1",
    "2024-02-30",
    "2024-01-01T25:61:61Z",
    "!!binary 'AAAA//=='",
    "!!python/object/apply:os.system ['touch ../victim']",
    "!!python/name:os.system",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "!!timestamp x",
    "!!int x",
    "!!float x",
    "!!bool maybe",
    "!!null x",
    "!custom {a: 1}",
    "!!merge <<",
    "&anchor [*anchor]",
    "*unknown",
    "&a a",
    "{? [a, b] : c}",
    "{<<: {a: 1}}",
    "{a: 1, a: 2}",
    "[a, [b, {c: [d]}]]",
    "{kind: none}",
    "{kind: dot, heads: 3}",
    "{kind: multi-head}",
    "{kind: [1]}",
    "| \n  text\n",
    "> folded",
    '"\\x1b[2J\\u202e"',
    '"\\0"',
    '"\\ud800"',
    '"unterminated',
    "@at",
    "`backtick",
    "%percent",
    "a: b: c",
    "- - - -",
    "\x1b[31mred",
    "\u202eoverride",
    "\x85",
    "\ufeff",
    "~/x",
    "~nobody-of-this-name/x",
    "/",
    ".",
    "x/" * 3_000,
    "é" * 300,
    "[" * 5_000,
    "{a: " * 1_000 + "1" + "}" * 1_000,
)
ALL_YAML_VALUES = (*dict.fromkeys((*YAML_VALUES, *JSON_VALUES)),)
KEYS = (
    "",
    " ",
    "kind",
    "extends",
    "<<",
    "a.b",
    ".",
    "\x1b[31m",
    "\u202ekey",
    "é",
    "0",
    "null",
    "x" * 5_000,
    "__class__",
)
LINES = (
    "---",
    "...",
    "%YAML 9.9",
    "%TAG ! tag:x,2000:",
    "- a",
    "? complex",
    ": value",
    "\tkey: value",
    "key: [",
    "}",
    "extends: case",
    "<<: *x",
    "# comment \x1b[31m",
    "key: value: value",
    "'",
    '"',
    "x" * 100_000,
    "\ufeff",
    "\u2028",
    "null",
    "{}",
    "[1, 2]",
    "0",
)
CHUNKS = (
    b"\x00",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\x1b[2J",
    b"\t",
    b"\x1a",
)

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
