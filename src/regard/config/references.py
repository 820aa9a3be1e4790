"""References: how an experiment names code outside Regard.

my_package.attention:CosineAttention       an importable module and a name in it
./cosine.py:CosineAttention                a file and a name in it; relative to the experiment file that names it
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

REFERENCE = re.compile(r"(.+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)", re.DOTALL)
FILE_REFERENCE = re.compile(r"(.+\.py):([^\W\d]\w*)", re.DOTALL)


def absolute_references(value: Any, folder: Path) -> Any:
    """`value` with an absolute path in each reference to a file, at any depth.

    Args:
        value: The value of a setting.
        folder: The folder that a relative path refers to.
    """
    if isinstance(value, dict):
        return {key: absolute_references(each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [absolute_references(each, folder) for each in value]
    match = FILE_REFERENCE.fullmatch(value) if isinstance(value, str) else None
    return f"{os.path.abspath(folder / os.path.expanduser(match[1]))}:{match[2]}" if match else value


def absolute_paths(value: Any, folder: Path) -> Any:
    """The value of a setting that names files, with absolute paths.

    Args:
        value: A path, a section with a key `path`, or a list of these; other values are left as they are.
        folder: The folder that a relative path refers to.
    """
    if isinstance(value, list):
        return [absolute_paths(each, folder) for each in value]
    if isinstance(value, dict) and "path" in value:
        return value | {"path": absolute_paths(value["path"], folder)}
    return os.path.abspath(folder / os.path.expanduser(value)) if isinstance(value, str) and value else value


def short_reference(value: str) -> str:
    """A reference to a file without its folder, for labels; any other text is returned as it is.

    Args:
        value: The name of a kind.
    """
    match = FILE_REFERENCE.fullmatch(value)
    return f"{os.path.basename(match[1])}:{match[2]}" if match else value
