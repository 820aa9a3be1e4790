"""Downloading a data set from the web, or copying it from a folder or archive: checked, and complete or not at all.

`pooch` is not used: it has one URL per file, restarts an interrupted download from the first byte, stores as much as a
server sends, and unpacks archives to disk. Here several mirrors are tried, downloads resume, sizes are bounded, and
only the wanted files are read out of an archive.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import unquote, urlsplit

from regard import files
from regard.corpora import datasets
from regard.corpora.archives import DAMAGES, Content, is_archive, plain_name, read_members
from regard.corpora.datasets import DataFile, DatasetSpec
from regard.corpora.download import CHUNK, NotThereError, UnavailableError, download
from regard.errors import UserError

OLD_STAGING = ".downloads"  # the folder for downloads of Regard 0.5


class DownloadObserver(Protocol):
    """Receives events during a download."""

    def present(self, file: DataFile) -> None: ...  # it had been downloaded before

    def received(self, address: str, done: int, total: int | None) -> None: ...  # bytes

    def kept(self, file: DataFile, origin: str) -> None: ...  # it has been stored, with the right checksum

    def failed(self, reason: str) -> None: ...  # one of several attempts


def download_dataset(dataset: DatasetSpec, origin: str | None, observer: DownloadObserver) -> Path:
    """Download the files of a data set to its folder and return the folder.

    Files that are complete stay as they are: a second call gets what the first could not.

    Args:
        dataset: The data set.
        origin: A folder, an archive or a URL to take the files from instead of its mirrors.
        observer: Receives events.

    Raises:
        UserError: If files are still missing after all attempts; lists the reasons.
    """
    folder = datasets.dataset_path(dataset.name)
    files.remove_abandoned(folder / "*")
    missing = [file for file in dataset.files if not _is_complete(folder / file.name, file)]
    for file in dataset.files:
        if file not in missing:
            observer.present(file)
    if not missing:
        return folder  # without a lock: the folder may be one that can only be read
    if origin is not None:
        _check_origin(origin)
    folder.mkdir(parents=True, exist_ok=True)
    with files.lock_folder(folder) as alone:
        if not alone:
            raise UserError(f"{folder}: another process is downloading {dataset.name}; wait until it has finished")
        for pattern in (OLD_STAGING, *(f".{file.name}.*" for file in dataset.files)):
            for leftover in folder.glob(pattern):  # Regard 0.5 did not lock them
                files.remove_entry(leftover)
        with files.scratch_folder(folder / "downloads") as staging:
            pending = _PendingFiles(missing, folder, staging, observer)
            _try_origins(pending, dataset, origin)
    if pending.missing:
        raise UserError(_failure_message(pending, dataset))
    return folder


def _check_origin(origin: str) -> None:
    """Raise a `UserError` for what cannot be an origin."""
    if _is_address(origin):
        try:
            parts = urlsplit(origin)
        except ValueError as error:
            raise UserError(f"--from {origin}: {error}; a URL is like https://example.org/folder") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"--from {origin}: must be a folder, an archive, or a URL with http:// or https://")
    elif not _path(origin).exists():
        raise UserError(f"--from {origin}: no such folder or archive")


def _is_address(origin: str) -> bool:
    return re.match("[a-z][a-z0-9+.-]+:", origin, re.IGNORECASE) is not None  # C:\ has one letter before its colon


def _path(origin: str) -> Path:
    return Path(os.path.expanduser(origin))  # Path's own raises if there is no such user


def _try_origins(pending: _PendingFiles, dataset: DatasetSpec, origin: str | None) -> None:
    if origin is None:
        for mirror in dataset.mirrors:
            pending.in_addresses(mirror.addresses, mirror.contents)
    elif not _is_address(origin):
        pending.in_folder(_path(origin))
    elif is_archive(urlsplit(origin).path):
        pending.in_addresses([origin])
    else:
        pending.below_address(origin)


class _PendingFiles:
    """The files that are still missing, and why earlier attempts failed."""

    def __init__(self, missing: Iterable[DataFile], folder: Path, staging: Path, observer: DownloadObserver) -> None:
        self.missing = list(missing)
        self.folder = folder
        self.staging = staging
        self.observer = observer
        self.failures: list[str] = []

    def in_folder(self, path: Path) -> None:
        """Plain files first, then .gz, then archives; or `path` is an archive itself."""
        packages = [path] if path.is_file() else [entry for entry in path.iterdir() if entry.is_file()]
        for package in sorted(packages, key=lambda entry: (is_archive(entry.name), entry.suffix == ".gz", entry.name)):
            if self._may_hold(package.name):
                self._store_members(package, package.name, str(package))

    def in_addresses(self, addresses: Iterable[str], contents: Mapping[str, Collection[str]] | None = None) -> None:
        """Download each URL once; after a server did not answer, the rest of its URLs are skipped."""
        for address in addresses:
            known = (contents or {}).get(address, self._wanted())
            if self._may_hold(_url_file_name(address)) and any(name in self._wanted() for name in known):
                try:
                    self._fetch(address)
                except NotThereError as error:
                    self._fail(str(error))
                except UnavailableError as error:
                    self._fail(str(error))
                    return

    def below_address(self, base: str) -> None:
        """Download single files below a URL, plain or as .gz, under any of their names."""
        for file in list(self.missing):
            failures_before = len(self.failures)
            for name in [name + suffix for name in file.names for suffix in ("", ".gz")]:
                try:
                    self._fetch(_below(base, name))
                except NotThereError:
                    continue
                except UnavailableError as error:
                    self._fail(str(error))
                    return
                if file not in self.missing:
                    break
            if file in self.missing and len(self.failures) == failures_before:
                self._fail(f"{_below(base, file.name)}: not found, neither plain nor as .gz")

    def _may_hold(self, name: str) -> bool:
        """True if a package of this name may have a missing file."""
        return bool(self.missing) and (is_archive(name) or plain_name(name) in self._wanted())

    def _wanted(self) -> dict[str, DataFile]:
        return {name: file for file in self.missing for name in file.names}

    def _fetch(self, address: str) -> None:
        package = self.staging / files.NEW
        try:
            download(address, package, self.observer.received)
            self._store_members(package, _url_file_name(address), address)
        finally:
            package.unlink(missing_ok=True)

    def _store_members(self, package: Path, name: str, origin: str) -> None:
        """Store the missing files of a package; a wrong one does not affect the others."""
        try:
            with closing(read_members(package, name, self._wanted())) as members:
                for member, content in members:
                    if file := self._wanted().get(member):
                        self._store(file, content, origin)
        except (*DAMAGES, OSError) as error:
            self._fail(f"{origin}: {_damage(error)}")

    def _store(self, file: DataFile, content: Content, origin: str) -> None:
        try:
            with files.atomic_writer(self.folder / file.name) as target:
                _copy(content, target, file)
        except _WrongContentError as error:
            self._fail(f"{origin}: {file.name} has the wrong content: {error}")
        except (*DAMAGES, OSError) as error:  # later members may be intact
            self._fail(f"{origin}: {file.name}: {_damage(error)}")
        else:
            self.missing.remove(file)
            self.observer.kept(file, origin)

    def _fail(self, reason: str) -> None:
        self.failures.append(reason)
        self.observer.failed(reason)


def _damage(error: Exception) -> str:
    """Describe the damage of a package; errors of the system, such as a full disk, are raised again."""
    if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # EINVAL: a position before the file
        raise error
    return f"damaged ({next(iter(str(error).splitlines()), type(error).__name__)})"


class _WrongContentError(Exception):
    """A file has the right name and the wrong content."""


def _copy(content: Content, target: IO[bytes], file: DataFile) -> None:
    """Copy a file, at most one byte beyond its size; a wrong size or checksum is an error."""
    checksum = hashlib.sha256()
    size = 0
    while chunk := content.read(min(CHUNK, file.size + 1 - size)):
        target.write(chunk)
        checksum.update(chunk)
        size += len(chunk)
    if size != file.size:
        much = f"more than {file.size:,}" if size > file.size else f"{size:,} of {file.size:,}"
        raise _WrongContentError(f"{much} bytes")
    if checksum.hexdigest() != file.sha256:
        raise _WrongContentError(f"SHA-256 {checksum.hexdigest()[:12]}… instead of {file.sha256[:12]}…")


def _is_complete(path: Path, file: DataFile) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


def _url_file_name(address: str) -> str:
    return unquote(urlsplit(address).path).rpartition("/")[2]


def _below(base: str, name: str) -> str:
    parts = urlsplit(base)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


def _failure_message(pending: _PendingFiles, dataset: DatasetSpec) -> str:
    names = ", ".join(file.name for file in pending.missing)
    reasons = pending.failures or ["no file with one of these names was found"]
    return "\n".join(
        [
            f"{dataset.name}: could not download {names}",
            *(f"  {reason}" for reason in reasons),
            f"if you have the files, plain, as .gz or in an archive: '{dataset.command} --from FOLDER'; a URL works as "
            "well",
        ]
    )
