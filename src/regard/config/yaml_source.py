"""YAML files: every key with its value and its line, so that an error can name the line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from regard import files
from regard.errors import UserError

MAX_BYTES = 50_000  # of a file, which takes seconds to parse; an experiment has about a thousand
MAX_DEPTH = 50  # of nested values: the time to parse them is quadratic


class YamlLoader(yaml.SafeLoader):
    """A safe loader that reads `1e-3` as a number, which YAML 1.1 reads as a string."""

    def construct_int(self, node: yaml.ScalarNode) -> int:
        number = self.construct_yaml_int(node)
        str(number)  # a ValueError if it has thousands of digits, which no message could print
        return number


class YamlDumper(yaml.SafeDumper):
    """A safe dumper whose output `YamlLoader` reads back unchanged, without aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # In other quotation marks, this line separator would be read as a space.
        return self.represent_scalar("tag:yaml.org,2002:str", data, '"' if "\x85" in data else None)


YamlLoader.add_constructor("tag:yaml.org,2002:int", YamlLoader.construct_int)
YamlDumper.add_representer(str, YamlDumper.represent_str)
for _class in (YamlLoader, YamlDumper):
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
    )


@dataclass(frozen=True)
class YamlLeaf:
    """A key that has no keys below it.

    Args:
        path: The keys that lead to it.
        value: Its value.
        origin: The file and line, for messages.
        folder: The folder that relative paths in the value refer to.
    """

    path: tuple[str, ...]
    value: Any
    origin: str
    folder: Path = Path()


def read_text_file(path: Path) -> str | None:
    """The text of a file; None if there is no such file.

    Args:
        path: The file.

    Raises:
        UserError: If it cannot be read or is not UTF-8.
    """

    def decode(content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            raise UserError(f"{path}, line {line}: this is not UTF-8 text; it should be a YAML file") from None

    try:
        return files.read_file(path, decode, MAX_BYTES) if "\0" not in str(path) else None
    except FileNotFoundError:
        return None


def parse_leaves(text: str, where: str, expected: str) -> Iterator[YamlLeaf]:
    """Every leaf of a document, in order.

    Args:
        text: The document.
        where: Its name, for messages.
        expected: The message if the document is not a mapping.
    """
    node = _compose(text, where)
    if node is not None:
        yield from _walk(node, where, expected, ())


def parse_value(text: str, where: str) -> Any:
    """A single value, as on the command line.

    Args:
        text: The value in YAML.
        where: The option, for messages.
    """
    node = _compose(text, where)
    return None if node is None else _construct(node, where)


def _compose(text: str, where: str) -> yaml.Node | None:
    try:
        _check_events(text, where)
        return yaml.compose(text, Loader=YamlLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{where}, line {line}: this is not YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise UserError(f"{where}, line {line}: this is not YAML: {error.reason}") from None


def _check_events(text: str, where: str) -> None:
    """Refuse aliases, of which a few lines can expand to gigabytes, and deep nesting."""
    depth = 0
    for event in yaml.parse(text, Loader=YamlLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise UserError(f"{where}, line {line}: aliases (*{event.anchor}) are not supported; write it out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise UserError(f"{where}, line {line}: this is nested too deeply")


def _walk(node: yaml.Node, where: str, expected: str, path: tuple[str, ...]) -> Iterator[YamlLeaf]:
    if not isinstance(node, yaml.MappingNode) or node.tag != "tag:yaml.org,2002:map":
        raise UserError(f"{where}, line {node.start_mark.line + 1}: {expected}")
    seen = set()
    for key_node, value_node in node.value:
        origin = f"{where}, line {key_node.start_mark.line + 1}"
        if not isinstance(key_node, yaml.ScalarNode):
            raise UserError(f"{origin}: a key should be a word")
        key = (*path, key_node.value)
        if key in seen:
            raise UserError(f"{origin}: {'.'.join(key)}: this key appears twice")
        seen.add(key)
        if isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from _walk(value_node, where, expected, key)
        else:
            yield YamlLeaf(key, _construct(value_node, where), origin)


def _construct(node: yaml.Node, where: str) -> Any:
    loader = YamlLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        line = node.start_mark.line + 1
        raise UserError(f"{where}, line {line}: this value cannot be read") from None
    finally:
        loader.dispose()
