"""`regard data get`, `regard data check` and `regard data filter`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.help import CommandTable
from regard.errors import UserError

data = CommandTable(no_args_is_help=True)

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="A file with both sides (.tsv, .jsonl, .parquet), or a folder of .arrow or .parquet."
    ),
]
Source = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="One text per line; or shards: 'train.*.de'. Excludes FILE."),
]
Target = Annotated[Path | None, typer.Option(metavar="FILE", help="The translations, one per line.")]
ColumnNames = Annotated[
    str | None,
    typer.Option("--columns", metavar="SOURCE,TARGET", help="The names of both texts in a .jsonl file or a table."),
]
MaxLines = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Most lines of a .gz file, of 100 bytes on average. The default is the limit of training: as many as "
        "the file has bytes, or 200,000 if that is more.",
    ),
]
MinWords = Annotated[int, typer.Option(min=1, help="Fewest words of a text.")]
MaxWords = Annotated[int | None, typer.Option(min=1, help="Most words of a text.")]
MaxRatio = Annotated[
    float | None, typer.Option(min=1, help="How many times as many words as the other text a text may have.")
]
MinLetters = Annotated[
    float, typer.Option(min=0, max=1, help="Smallest share of letters among the characters of a text.")
]
NoCopies = Annotated[bool, typer.Option("--no-copies", help="Leave out pairs whose source and target are equal.")]


@data.command("get")
def data_get_command(
    name: Annotated[str, typer.Argument(help="The name of the data set: multi30k.")],
    origin: Annotated[
        str | None,
        typer.Option("--from", metavar="FOLDER|URL", help="A folder, an archive or a URL, in place of the mirrors."),
    ] = None,
    languages: Annotated[
        str | None, typer.Option(metavar="LANGUAGE,…", help="Languages to download (default: de,en).")
    ] = None,
    tests: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…",
            help="Test sets to download: 2016_flickr (the default), 2017_flickr, 2017_mscoco, 2018_flickr.",
        ),
    ] = None,
) -> None:
    """Download a known data set and verify its checksums. Files that are complete are not downloaded again."""
    from regard.cli.data_get import print_get

    print_get(name, origin, languages, tests)


@data.command("check")
def data_check_command(
    file: File = None,
    source: Source = None,
    target: Target = None,
    test_source: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A test set, sources or both sides, to find texts that are in both sets."),
    ] = None,
    test_target: Annotated[Path | None, typer.Option(metavar="FILE", help="The targets of the test set.")] = None,
    columns: ColumnNames = None,
    min_words: MinWords = 1,
    max_words: MaxWords = None,
    max_ratio: MaxRatio = None,
    min_letters: MinLetters = 0.0,
    no_copies: NoCopies = False,
    max_lines: MaxLines = None,
    as_json: options.Json = False,
) -> None:
    """Check parallel text before training: lengths, words, repetitions and all invalid lines.

    With limits, it reports how many pairs exceed them, which 'regard data filter' removes.
    """
    from regard.cli.data_check import print_check

    if test_target and not test_source:
        raise UserError("--test-target: give the sources of the test set, too, with --test-source")
    limits = {
        "min_words": min_words,
        "max_words": max_words,
        "max_ratio": max_ratio,
        "min_letters": min_letters,
        "copies": not no_copies,
    }
    test = (test_source, test_target) if test_source else None
    corpus = _one_corpus(file, source, target)
    print_check(*corpus, test, as_json, max_lines, columns=_names(columns), limits=limits)


@data.command("filter")
def data_filter_command(
    out: Annotated[
        Path, typer.Option(metavar="NAME", help="The beginning of the names of the new files: clean for clean.de.")
    ],
    file: File = None,
    source: Source = None,
    target: Target = None,
    columns: ColumnNames = None,
    min_words: MinWords = 1,
    max_words: MaxWords = None,
    max_ratio: MaxRatio = None,
    min_letters: MinLetters = 0.0,
    no_copies: NoCopies = False,
    deduplicate: Annotated[bool, typer.Option("--deduplicate", help="Leave out pairs that occurred before.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON.")] = None,
    max_lines: MaxLines = None,
    as_json: options.Json = False,
) -> None:
    """Write the pairs of a corpus that are valid and within limits to new files of the same format."""
    from regard.cli.data_filter import print_filter

    limits = {
        "min_words": min_words,
        "max_words": max_words,
        "max_ratio": max_ratio,
        "min_letters": min_letters,
        "copies": not no_copies,
    }
    print_filter(
        _one_corpus(file, source, target),
        report,
        as_json,
        out=out,
        deduplicate=deduplicate,
        columns=_names(columns),
        max_lines=max_lines,
        **limits,
    )


def _names(columns: str | None) -> list[str] | None:
    return None if columns is None else columns.split(",")


def _one_corpus(file: Path | None, source: Path | None, target: Path | None) -> tuple[Path, Path | None]:
    """The files of sources and targets, from either way to give them."""
    if file and (source or target):
        raise UserError(f"{file}: give either a file with both sides, or --source and --target")
    corpus = file or source
    if corpus is None:
        raise UserError("give the corpus: a file with both sides, or --source and --target")
    return corpus, target
