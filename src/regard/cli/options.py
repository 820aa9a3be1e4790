"""The arguments and options of commands, and what they are called in the help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.search.options import SearchOptions, bounds_text, flag_name, option_group

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, made by 'regard train'.")]
Json = Annotated[bool, typer.Option("--json", help="For programs: a JSON object a line.")]
WholeJson = Annotated[bool, typer.Option("--json", help="For programs: all of it, as one JSON object.")]
Out = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Draw it (.png, .svg, .pdf), or write all of it (.html); can be repeated."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many sentences.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")]
Seeds = Annotated[
    int | None, typer.Option(help="How often each is trained, with seeds 1, 2, … (default: 3, or as the study has it).")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="How many runs at a time (default: one for each core).")]
Runs = Annotated[
    Path | None, typer.Option(help="The folder of run directories, which studies share (default: runs, beside OUT).")
]
Report = Annotated[bool, typer.Option("--report", help="Train nothing; only report on what is finished.")]


def search_option(name: str, metavar: str | None = None) -> Any:
    """The flag of a search option, with the help, the bounds and the group of `SearchOptions`.

    The bounds are only shown here: `SearchOptions` checks them, in one place for every command.
    """
    bounds = bounds_text(name)
    return typer.Option(
        f"--{flag_name(name)}",
        help=f"{SearchOptions.model_fields[name].description}{f' ({bounds})' if bounds else ''}",
        metavar=metavar,
        rich_help_panel=option_group(name),
    )


Beam = Annotated[int, search_option("beam")]
Beams = Annotated[str, search_option("beam", metavar="WIDTH[,WIDTH]...")]
NBest = Annotated[int, search_option("n_best")]
LengthPenalty = Annotated[float | None, search_option("length_penalty")]
Sample = Annotated[bool, search_option("sample")]
Temperature = Annotated[float, search_option("temperature")]
TopK = Annotated[int | None, search_option("top_k")]
TopP = Annotated[float, search_option("top_p")]
Seed = Annotated[int, search_option("seed")]
Prefix = Annotated[str, search_option("prefix")]
MinLength = Annotated[int, search_option("min_length")]
BlockNgrams = Annotated[int, search_option("block_ngrams")]
RepetitionPenalty = Annotated[float, search_option("repetition_penalty")]


class SplitName(StrEnum):
    train = "train"
    validation = "validation"
    test = "test"


class MethodName(StrEnum):
    randomization = "randomization"
    bootstrap = "bootstrap"


Method = Annotated[
    MethodName | None, typer.Option(help="The test over sentences: approximate randomization, or paired bootstrap.")
]


class AlignmentForm(StrEnum):
    moses = "moses"
