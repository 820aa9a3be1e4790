"""Reading wanted files out of whatever they come in. Nothing is unpacked to the disk, so no archive can write there."""

from __future__ import annotations

import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Generator
from pathlib import Path, PurePosixPath
from typing import IO, Self

Content = IO[bytes] | gzip.GzipFile
Members = Generator[tuple[str, Content], None, None]  # name and content, open until the next one is asked for

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
MOST_BYTES = 1 << 30  # of an unpacked tar archive, wanted or not: a bomb of zeros ends here
MOST_OF_A_NOTE = 1 << 20  # bytes of what tells of a member, such as a long name: tarfile holds it in memory

# What reading a damaged or hostile package raises. A RuntimeError is an encrypted member of a zip archive, a ValueError
# a name in it that is not Unicode, a LookupError or an OverflowError nonsense in the header of a tar archive.
DAMAGES = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    OverflowError,
)


def is_archive(name: str) -> bool:
    return name.lower().endswith(ARCHIVES)


def plain_name(name: str) -> str:
    """What a file is called when it is unpacked."""
    return name.removesuffix(".gz")


def unpacked(package: Path, name: str, wanted: Collection[str]) -> Members:
    """Each of the wanted files in a package called `name`: its own name, and its content to read from."""
    if not is_archive(name):
        members = _only(package, name, wanted)
    elif name.lower().endswith(".zip"):
        members = _zip_members(package, wanted)
    else:
        members = _tar_members(package, wanted)
    for member, content in members:
        if member.endswith(".gz"):
            with gzip.open(content) as plain:
                yield plain_name(member), plain
        else:
            yield member, content


def _only(package: Path, name: str, wanted: Collection[str]) -> Members:
    if plain_name(name) in wanted:
        with package.open("rb") as content:
            yield name, content


class _Header(tarfile.TarInfo):
    """The header of a member, refused before tarfile does what it says: skip backwards for ever, fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        is_note = header.type not in tarfile.REGULAR_TYPES
        if header.size < 0 or (is_note and header.size > MOST_OF_A_NOTE) or header.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(f"a header with type {header.type!r} and size {header.size}")
        return header


def _tar_members(package: Path, wanted: Collection[str]) -> Members:
    with tarfile.open(package, "r:*", tarinfo=_Header) as archive:
        while member := archive.next():
            archive.members.clear()  # type: ignore[attr-defined]  # there may be millions; none is asked for again
            # Looked at again, because notes may have changed the size.
            if member.size < 0 or member.offset_data + member.size > MOST_BYTES:
                raise tarfile.ReadError(f"more than {MOST_BYTES:,} bytes")
            # A regular file only: a link could lead anywhere, a device is no text.
            if member.isreg() and not member.issparse() and (name := _base_name(member.name, wanted)):
                content = archive.extractfile(member)
                assert content is not None
                with content:
                    yield name, content


def _zip_members(package: Path, wanted: Collection[str]) -> Members:
    with zipfile.ZipFile(package) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 if the archive comes from a system without kinds
            if kind in (0, stat.S_IFREG) and (name := _base_name(member.filename, wanted)):
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # Others unpack as much as they like at once, however little is asked for.
                    raise zipfile.BadZipFile(f"{member.filename} is compressed in an unusual way")
                with archive.open(member) as content:
                    yield name, content


def _base_name(path: str, wanted: Collection[str]) -> str | None:
    """The last part of a member's path if it is wanted; an archive in whose paths something is fishy is not."""
    parts = PurePosixPath(path)
    honest = not parts.is_absolute() and ".." not in parts.parts
    return parts.name if honest and plain_name(parts.name) in wanted else None
