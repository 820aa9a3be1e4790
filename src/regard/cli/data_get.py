"""`regard data get`: download a data set and print where each file came from."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from regard.corpora import datasets, fetch
from regard.corpora.datasets import DataFile
from regard.terminal.output import print_message, print_result
from regard.terminal.progress import LOG_INTERVAL, new_console, time_left
from regard.terminal.tables import print_table

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

CHECKSUM_SHOWN = 12  # characters: enough to compare by eye


def print_get(name: str, origin: str | None, languages: str | None = None, tests: str | None = None) -> None:
    """Download a data set and print its files.

    Args:
        name: The name of the data set.
        origin: A folder, an archive or a URL to take the files from instead of its mirrors.
        languages: The languages to download, such as `de,en`; None means the default.
        tests: The test sets to download, such as `2016_flickr,2018_flickr`; None means the default.
    """
    dataset = datasets.find_dataset(name).select(split_list(languages), split_list(tests))
    print_result(f"{dataset.name}: {dataset.description}")
    print_result(f"terms of use: {dataset.terms}", flush=True)  # before the first byte arrives
    with GetObserver() as observer:
        folder = fetch.download_dataset(dataset, origin, observer)
    for reason in observer.failures:  # after a failure, they are part of the error
        print_message(f"failed attempt: {reason}")
    print_result(f"data set folder: {folder}")


def split_list(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


class GetObserver:
    """Prints a table of the files at the end; during a download, a progress bar or, outside a terminal, plain lines."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.address = ""
        self.failures: list[str] = []
        self.bar = download_bar() if sys.stderr.isatty() else None
        self.task = self.bar.add_task("") if self.bar else None  # replaced by one for each download

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()
        if self.rows:  # also after an error
            print_table(["file", "lines", "sha256", "origin"], self.rows, right=[False, True, False, False])

    def present(self, file: DataFile) -> None:
        self.add_row(file, "already downloaded")

    def kept(self, file: DataFile, origin: str) -> None:
        self.add_row(file, origin)

    def failed(self, reason: str) -> None:
        self.failures.append(reason)

    def received(self, address: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if address != self.address:
            self.address, self.first_byte = address, done
            self.began_at = self.reported_at = now
            if self.bar and self.task is not None:
                self.bar.remove_task(self.task)
                self.task = self.bar.add_task(address.rpartition("/")[2], total=total)
                self.bar.start()
        if self.bar and self.task is not None:
            self.bar.update(self.task, completed=done)
        elif now - self.reported_at >= LOG_INTERVAL:
            self.reported_at = now
            rate = (done - self.first_byte) / (now - self.began_at)
            print_message(f"{address}  {format_amount(done, total, rate)}")

    def add_row(self, file: DataFile, origin: str) -> None:
        if self.bar:
            self.bar.stop()  # the next download starts it again
        self.rows.append([file.name, f"{file.lines:,}", f"{file.sha256[:CHECKSUM_SHOWN]}…", origin])


def format_amount(done: int, total: int | None, rate: float) -> str:
    of_total = f"/{total:,}" if total is not None else ""
    left = time_left(total - done, rate) if total is not None else ""
    return f"{done:,}{of_total} bytes  {rate:,.0f} bytes/s{left}"


def download_bar() -> Bar:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=new_console(),
        redirect_stdout=False,  # so that standard output can be redirected
        transient=True,
    )
