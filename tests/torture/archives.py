"""Hostile archives for `regard data get --from`: damage, bombs, links, names that lead elsewhere."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from torture import hostile, pool, special_files
from torture.judging import INPUT, OUTPUT, VICTIM, Attempt
from torture.outcomes import Campaign, Tally

TRIES = 1_800
PRELOAD = ("regard.cli.data_get", "regard.corpora.fetch")
TEXTS = {
    "one.de": "".join(f"Zeile {number} für Übung\n" for number in range(300)).encode(),
    "one.en": "".join(f"Line {number} of an exercise\n" for number in range(300)).encode(),
    "two.de": b"kurz\n",
}
LINK_TYPES = (
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
    tarfile.DIRTYPE,
    tarfile.GNUTYPE_SPARSE,
)
NAMES = (
    "../one.de",
    "/one.de",
    "x/../../one.de",
    "one.de/",
    "./one.de",
    "one.de\0x",
    "\x1b[31m/one.de",
    "one.de.gz",
    "ONE.DE",
)
TRAPS = (".lock", "one.de", ".one.de.12345678", ".downloads", ".downloads/download")


def attack(campaign: Campaign) -> list[Tally]:
    """Try hostile archives."""
    return pool.run_tries(campaign, __name__, range(campaign.tries(TRIES)))


def prepare_worker() -> None:
    """Add a small data set to the known ones."""
    from regard.corpora.datasets import DATASETS, DataFile, DatasetSpec

    known = (DataFile(name, text.count(b"\n"), len(text), sha256(text).hexdigest()) for name, text in TEXTS.items())
    DATASETS["small"] = DatasetSpec("small", "Some lines", "none", tuple(known), ())  # type: ignore[index]


def build(number: int, random: Random, folder: Path, given: Path | None) -> Attempt:
    """The try with this number."""
    here = folder / INPUT
    os.environ["REGARD_DATA"] = str((folder / OUTPUT / "data").resolve())
    kinds = ("bytes", "bytes", "tar headers", "zip headers", "members", "members", "bombs", "special files", "traps")
    kind = kinds[number % len(kinds)]
    file = here / f"small.{random.choice(('tar', 'tar.gz', 'tgz', 'zip'))}"
    if kind == "bytes":
        file.write_bytes(hostile.mutate_bytes(pack(file.name, TEXTS), random))
    elif kind == "tar headers":
        file = here / "small.tar"
        file.write_bytes(damage_tar_header(pack(file.name, TEXTS), random))
    elif kind == "zip headers":
        file = here / "small.zip"
        file.write_bytes(damage_zip_header(pack(file.name, TEXTS), random))
    elif kind == "members":
        file.write_bytes(pack_members(file.name, random))
    elif kind == "bombs":
        file.write_bytes(pack_bomb(file.name, random))
    elif kind == "special files":
        file = here / random.choice(("one.de", "one.de.gz", "small.tar", "small.zip"))
        special_files.make(special_files.KINDS[number // len(kinds) % len(special_files.KINDS)], file, folder / VICTIM)
    else:
        file.write_bytes(pack(file.name, TEXTS))
        set_trap(folder / OUTPUT / "data" / "small", number // len(kinds), random, folder / VICTIM)
    origin = file if random.random() < 0.7 else here
    return Attempt(f"archives: {kind}", ["data", "get", "small", "--from", str(origin)])


def pack(name: str, members: dict[str, bytes]) -> bytes:
    """An archive of the format that its name has."""
    target = io.BytesIO()
    if name.endswith(".zip"):
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in members.items():
                archive.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_DEFLATED)
        return target.getvalue()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for member, content in members.items():
            add_member(archive, member, content)
    return target.getvalue() if name.endswith(".tar") else gzip.compress(target.getvalue(), mtime=0)


def add_member(archive: tarfile.TarFile, name: str, content: bytes, **changes: Any) -> None:
    """Add a member to a tar archive, with attributes of its header changed."""
    header = tarfile.TarInfo(name)
    header.size = len(content)
    for attribute, value in changes.items():
        setattr(header, attribute, value)
    archive.addfile(header, io.BytesIO(content))


def damage_tar_header(content: bytes, random: Random) -> bytes:
    """A tar archive with nonsense in one field of a header, and the right checksum."""
    data = bytearray(content)
    offsets = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    at = random.choice(offsets)
    start, length = random.choice(
        ((0, 100), (100, 8), (108, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155))
    )
    value = random.choice(
        (
            b"\xff" * length,
            b"\x80" + b"\x00" * (length - 1),
            b"\x80" + b"\xff" * (length - 1),
            b"7" * length,
            b"-1" + b" " * length,
            b"\x00" * length,
            random.randbytes(length),
            random.choice((b"0", b"1", b"2", b"5", b"L", b"K", b"S", b"x", b"g", b"X", b"\x00", b"Z")).ljust(
                length, b"\0"
            ),
        )
    )
    data[at + start : at + start + length] = value[:length]
    data[at + 148 : at + 156] = b" " * 8
    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    return bytes(data)


def damage_zip_header(content: bytes, random: Random) -> bytes:
    """A zip archive with nonsense in one of its headers."""
    data = bytearray(content)
    for _ in range(random.randint(1, 3)):
        mark = random.choice((b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"))
        places = [at for at in range(len(data)) if data[at : at + 4] == mark] or [0]
        at = random.choice(places) + random.randrange(4, 46)
        value = random.choice((b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff", b"\x01\x00", random.randbytes(4)))
        data[at : at + len(value)] = value
    return bytes(data)


def pack_members(name: str, random: Random) -> bytes:
    """An archive with links, hostile names, repeated members or wrong content."""
    if name.endswith(".zip"):
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            for member, content in TEXTS.items():
                header = zipfile.ZipInfo(random.choice((member, random.choice(NAMES))))
                header.external_attr = random.choice((0, 0o100644, 0o120777, 0o010644, 0o040755)) << 16
                header.compress_type = random.choice((0, 8, 12, 14))
                archive.writestr(header, random.choice((content, content[:-1], b"../../victim", content * 2)))
        return target.getvalue()
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=random.choice((0, 1, 2))) as archive:
        for member, content in TEXTS.items():
            changes: dict[str, Any] = {}
            if random.random() < 0.5:
                changes = {
                    "type": random.choice(LINK_TYPES),
                    "linkname": random.choice(("../../victim", "one.en", "/etc/passwd")),
                }
            content = random.choice((content, content, content[:-1], b""))
            add_member(
                archive, random.choice((member, member, random.choice(NAMES))).replace("\0", ""), content, **changes
            )
    return target.getvalue() if name.endswith(".tar") else gzip.compress(target.getvalue(), mtime=0)


def pack_bomb(name: str, random: Random) -> bytes:
    """A small archive that unpacks to much, or has many members."""
    if random.random() < 0.5:
        return pack(name, {f"{number}.txt": b"" for number in range(random.choice((100, 5_000)))} | TEXTS)
    zeros = bytes(1 << 20)
    target = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=1, fileobj=target, mtime=0) as packed:
        for _ in range(20):
            packed.write(zeros)
    return pack(name, {"one.de.gz": target.getvalue()}) if random.random() < 0.7 else target.getvalue()


def set_trap(folder: Path, number: int, random: Random, victim: Path) -> None:
    """Make links to the victim where the command writes."""
    name = TRAPS[number % len(TRAPS)]
    (folder / name).parent.mkdir(parents=True)
    kind = random.choice(("link to the victim", "link to the victim", *special_files.KINDS))
    special_files.make(kind, folder / name, victim)
