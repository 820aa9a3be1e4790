"""The arguments and options of commands, and what they are called in the help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

SEARCH, SAMPLING, RULES = "Search", "Sampling", "Rules"  # headings in the help

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
Width = Annotated[int, typer.Option("--beam", help="The width of the beam; 1 is greedy.", rich_help_panel=SEARCH)]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="α in score / ((5 + length) / 6)^α; 0 is none (default: the run's).", rich_help_panel=SEARCH),
]
NBest = Annotated[int, typer.Option(help="Up to so many different answers to a text.", rich_help_panel=SEARCH)]
Sample = Annotated[bool, typer.Option("--sample", help="Draw by chance.", rich_help_panel=SAMPLING)]
Temperature = Annotated[float, typer.Option(help="Below 1, likely tokens become likelier.", rich_help_panel=SAMPLING)]
TopK = Annotated[int | None, typer.Option(help="Only so many likeliest tokens.", rich_help_panel=SAMPLING)]
TopP = Annotated[
    float, typer.Option(help="Only the likeliest tokens with this probability together.", rich_help_panel=SAMPLING)
]
Seed = Annotated[int, typer.Option(help="The same seed, the same draws.", rich_help_panel=SAMPLING)]
Prefix = Annotated[str, typer.Option(help="What every output begins with.", rich_help_panel=RULES)]
MinLength = Annotated[int, typer.Option(help="Tokens that every output has at least.", rich_help_panel=RULES)]
BlockNgrams = Annotated[
    int, typer.Option(help="Say no sequence of so many tokens twice; 0 is no rule.", rich_help_panel=RULES)
]
RepetitionPenalty = Annotated[
    float, typer.Option(help="Divides the probability of what was said already; 1 is none.", rich_help_panel=RULES)
]


class SplitName(StrEnum):
    train = "train"
    validation = "validation"
    test = "test"


class MethodName(StrEnum):
    randomisation = "randomisation"
    bootstrap = "bootstrap"


Method = Annotated[
    MethodName | None, typer.Option(help="The test over sentences: approximate randomisation, or paired bootstrap.")
]


class AlignmentForm(StrEnum):
    moses = "moses"
