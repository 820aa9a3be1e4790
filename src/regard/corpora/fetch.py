"""Getting a data set: from the web or from a folder, checked, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import unquote, urlsplit

from regard import files
from regard.corpora import datasets
from regard.corpora.archives import DAMAGES, Content, is_archive, plain_name, unpacked
from regard.corpora.datasets import DataFile, DataSet
from regard.corpora.download import CHUNK, NotThereError, UnavailableError, download
from regard.errors import UserError


class DownloadObserver(Protocol):
    """Is told how it goes."""

    def present(self, file: DataFile) -> None: ...  # it was here before

    def received(self, address: str, done: int, total: int | None) -> None: ...  # bytes

    def kept(self, file: DataFile, origin: str) -> None: ...  # it is here now, and right

    def failed(self, reason: str) -> None: ...  # going on without it, as long as something is left to try


def download_dataset(dataset: DataSet, origin: str | None, observer: DownloadObserver) -> Path:
    """Bring the files of a data set to their folder, from `origin` (a folder, an archive, an address) or its sources.

    Files that are here and right stay as they are: a second call gets what the first could not.
    """
    folder = datasets.place(dataset.name)
    missing = [file for file in dataset.files if not _is_right(folder / file.name, file)]
    for file in dataset.files:
        if file not in missing:
            observer.present(file)
    if not missing:
        return folder  # without a lock: the folder may be one that can only be read
    if origin is not None:
        _check(origin)
    folder.mkdir(parents=True, exist_ok=True)
    with files.lock_folder(folder) as alone:
        if not alone:
            raise UserError(f"{folder}: another process is getting {dataset.name}; wait until it is done")
        for file in dataset.files:
            for leftover in folder.glob(f".{file.name}.*"):  # of a process that was killed
                leftover.unlink()
        with _staging(folder) as staging:
            search = _Search(missing, folder, staging, observer)
            _try_all(search, dataset, origin)
    if search.missing:
        raise UserError(_explanation(search, dataset))
    return folder


def _check(origin: str) -> None:
    """Refuse at once what cannot be an origin."""
    if _is_address(origin):
        try:
            parts = urlsplit(origin)
        except ValueError as error:
            raise UserError(f"--from {origin}: {error}; an address is like https://example.org/folder") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"--from {origin}: give a folder, an archive, or an address with http:// or https://")
    elif not _path(origin).exists():
        raise UserError(f"--from {origin}: no such folder or archive")


def _is_address(origin: str) -> bool:
    return re.match("[a-z][a-z0-9+.-]+:", origin, re.IGNORECASE) is not None  # C:\ has one letter before its colon


def _path(origin: str) -> Path:
    return Path(os.path.expanduser(origin))  # Path's own raises if there is no such user


def _try_all(search: _Search, dataset: DataSet, origin: str | None) -> None:
    if origin is None:
        for source in dataset.sources:
            search.in_addresses(source.addresses)
    elif not _is_address(origin):
        search.in_folder(_path(origin))
    elif is_archive(urlsplit(origin).path):
        search.in_addresses([origin])
    else:
        search.below_address(origin)


class _Search:
    """What is still missing, and why: it was looked for here and there."""

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
                self._take(package, package.name, str(package))

    def in_addresses(self, addresses: Iterable[str]) -> None:
        """At most one download for each address; a server that does not answer is not asked for the rest."""
        for address in addresses:
            if self._may_hold(_base_name(address)):
                try:
                    self._fetch(address)
                except NotThereError as error:
                    self._fail(str(error))
                except UnavailableError as error:
                    self._fail(str(error))
                    return

    def below_address(self, base: str) -> None:
        """Files that lie side by side, plain or as .gz, each by any of its names."""
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
                self._fail(f"{_below(base, file.name)}: not there, neither plain nor as .gz")

    def _may_hold(self, name: str) -> bool:
        """Whether a look into a package of this name can help."""
        return bool(self.missing) and (is_archive(name) or plain_name(name) in self._wanted())

    def _wanted(self) -> dict[str, DataFile]:
        return {name: file for file in self.missing for name in file.names}

    def _fetch(self, address: str) -> None:
        package = self.staging / "download"
        try:
            download(address, package, self.observer.received)
            self._take(package, _base_name(address), address)
        finally:
            package.unlink(missing_ok=True)

    def _take(self, package: Path, name: str, origin: str) -> None:
        """Keep what a package holds of the missing files; one that is not right does not spoil the others."""
        try:
            with closing(unpacked(package, name, self._wanted())) as members:
                for member, content in members:
                    if file := self._wanted().get(member):
                        self._keep(file, content, origin)
        except (*DAMAGES, OSError) as error:
            self._fail(f"{origin}: {_damage(error)}")

    def _keep(self, file: DataFile, content: Content, origin: str) -> None:
        try:
            with files.atomic_writer(self.folder / file.name) as target:
                _copy(content, target, file)
        except _WrongContentError as error:
            self._fail(f"{origin}: {file.name} is not the right one: {error}")
        except (*DAMAGES, OSError) as error:  # what comes behind it may be sound
            self._fail(f"{origin}: {file.name}: {_damage(error)}")
        else:
            self.missing.remove(file)
            self.observer.kept(file, origin)

    def _fail(self, reason: str) -> None:
        self.failures.append(reason)
        self.observer.failed(reason)


def _damage(error: Exception) -> str:
    """What is wrong with a package; if it is not the package, but a full disk, say, that is no reason to go on."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return f"damaged ({next(iter(str(error).splitlines()), type(error).__name__)})"


class _WrongContentError(Exception):
    """Something has the name of a file, and is another."""


def _copy(content: Content, target: IO[bytes], file: DataFile) -> None:
    """Copy a file, but not more than a byte beyond its size; what is not exactly that file is an error."""
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


def _is_right(path: Path, file: DataFile) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A place for downloads that does not outlive its use; if a process was killed here, its remains go first."""
    path = folder / ".downloads"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _base_name(address: str) -> str:
    return unquote(urlsplit(address).path).rpartition("/")[2]


def _below(base: str, name: str) -> str:
    parts = urlsplit(base)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{name}").geturl()


def _explanation(search: _Search, dataset: DataSet) -> str:
    names = ", ".join(file.name for file in search.missing)
    reasons = search.failures or ["nothing there goes by one of these names"]
    return "\n".join(
        [
            f"{dataset.name}: could not get {names}",
            *(f"  {reason}" for reason in reasons),
            f"if you have the files, plain, as .gz or in an archive: 'regard data get {dataset.name} --from FOLDER'; "
            "an address of a copy will do, too",
        ]
    )
