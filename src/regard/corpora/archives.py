"""Reading files out of archives. Nothing is unpacked to disk, so no archive can write there."""

from __future__ import annotations

import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Generator
from pathlib import Path, PurePosixPath
from typing import IO, Literal, Self

Content = IO[bytes] | gzip.GzipFile
Members = Generator[tuple[str, Content], None, None]  # name and content, open until the next one is requested

GZIP_MAGIC = b"\x1f\x8b"
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
MAX_BYTES = 1 << 30  # of an unpacked tar archive: the limit for decompression bombs
MAX_METADATA_BYTES = 1 << 20  # of a metadata member, such as a long name, which tarfile holds in memory

# What reading a damaged or malicious package raises. A RuntimeError is an encrypted member of a zip archive, a
# ValueError a name in it that is not Unicode, a LookupError or an OverflowError nonsense in a tar archive's header.
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
    """True if the name is that of an archive.

    Args:
        name: A file name.
    """
    return name.lower().endswith(ARCHIVES)


def plain_name(name: str) -> str:
    """The name of a file without .gz.

    Args:
        name: A file name.
    """
    return name.removesuffix(".gz")


def read_members(package: Path, name: str, wanted: Collection[str]) -> Members:
    """Iterate over the wanted files of a package: name and open content.

    Args:
        package: A plain file, a .gz file or an archive.
        name: Its original name, which determines its format.
        wanted: Names of files.
    """
    if not is_archive(name):
        members = _single_member(package, name, wanted)
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


def _single_member(package: Path, name: str, wanted: Collection[str]) -> Members:
    if plain_name(name) in wanted:
        with package.open("rb") as content:
            yield name, content


class _CheckedHeader(tarfile.TarInfo):
    """A member's header, checked before tarfile acts on it: it could loop for ever or fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        is_metadata = header.type not in tarfile.REGULAR_TYPES
        if (
            header.size < 0
            or (is_metadata and header.size > MAX_METADATA_BYTES)
            or header.type == tarfile.GNUTYPE_SPARSE
        ):
            raise tarfile.ReadError(f"a header with type {header.type!r} and size {header.size}")
        return header


def _tar_members(package: Path, wanted: Collection[str]) -> Members:
    with package.open("rb") as file:
        # Not "r:*", which also tries formats that read a large file of zeros to its end.
        mode: Literal["r:gz", "r:"] = "r:gz" if file.read(len(GZIP_MAGIC)) == GZIP_MAGIC else "r:"
    with tarfile.open(package, mode, tarinfo=_CheckedHeader) as archive:
        while member := archive.next():
            archive.members.clear()  # type: ignore[attr-defined]  # there may be millions
            # Checked again, because metadata may have changed the size.
            if member.size < 0 or member.offset_data + member.size > MAX_BYTES:
                raise tarfile.ReadError(f"more than {MAX_BYTES:,} bytes")
            # Regular files only: a link could point anywhere.
            if member.isreg() and not member.issparse() and (name := _wanted_name(member.name, wanted)):
                content = archive.extractfile(member)
                assert content is not None
                with content:
                    yield name, content


def _zip_members(package: Path, wanted: Collection[str]) -> Members:
    with zipfile.ZipFile(package) as archive:
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)  # 0 if the archive comes from a system without kinds
            if kind in (0, stat.S_IFREG) and (name := _wanted_name(member.filename, wanted)):
                if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    # Other methods may unpack any amount at once.
                    raise zipfile.BadZipFile(f"{member.filename} is compressed in an unusual way")
                with archive.open(member) as content:
                    yield name, content


def _wanted_name(path: str, wanted: Collection[str]) -> str | None:
    """The last part of a member's path if it is wanted; None for absolute paths and those with `..`."""
    parts = PurePosixPath(path)
    is_safe = not parts.is_absolute() and ".." not in parts.parts
    return parts.name if is_safe and plain_name(parts.name) in wanted else None
