"""`regard data get` and `regard data check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.help import CommandTable
from regard.errors import UserError

data = CommandTable(no_args_is_help=True)


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
    source: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="One text per line; or a .tsv file with source and target; or shards: 'train.*.de'."
        ),
    ],
    target: Annotated[Path | None, typer.Option(metavar="FILE", help="The translations, one per line.")] = None,
    test_source: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The sources of a test set, to find texts that are in both sets."),
    ] = None,
    test_target: Annotated[Path | None, typer.Option(metavar="FILE", help="The targets of the test set.")] = None,
    max_lines: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Most lines of a .gz file, of 100 bytes on average. The default is the limit of training: as many as "
            "the file has bytes, or 200,000 if that is more.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check parallel text before training: lengths, words, repetitions and all invalid lines."""
    from regard.cli.data_check import print_check

    if test_target and not test_source:
        raise UserError("--test-target: give the sources of the test set, too, with --test-source")
    print_check(source, target, (test_source, test_target) if test_source else None, as_json, max_lines)
