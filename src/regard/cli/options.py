"""Arguments and options that several commands have, with their help."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from regard.cli.completion import complete_experiments, complete_runs, complete_settings
from regard.cli.help import add_remarks
from regard.search.options import SearchOptions, bounds_text, flag_name, option_group
from regard.terminal.output import note

Experiment = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT", autocompletion=complete_experiments, help="A recipe's name, or a path to a YAML file."
    ),
]
Run = Annotated[
    Path, typer.Argument(metavar="RUN", autocompletion=complete_runs, help="A run directory, made by 'regard train'.")
]
SeveralRuns = Annotated[
    list[Path], typer.Argument(metavar="RUN", autocompletion=complete_runs, help="One or more run directories.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
WholeJson = Annotated[bool, typer.Option("--json", help="Print all results as one JSON object.")]
Out = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="Write the picture (.png, .svg, .pdf) or the whole report (.html); can be repeated."
    ),
]
MatrixText = Annotated[
    str | None, typer.Option(metavar="'A,B; C,D'", help="A matrix, row by row (default: that of the example).")
]
Limit = Annotated[int | None, typer.Option(min=1, help="Use at most this number of sentences.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        autocompletion=complete_settings,
        help="Change a setting, such as training.seed=2; can be repeated.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on the workers of a Dask cluster, in place of this machine: the address of its scheduler, as "
        "tcp://HOST:8786.",
    ),
]
DataPaths = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="data.SPLIT=VALUE",
        help="Where a text file of the run is now, if it has moved: data.test=corpus/test; or another test set of "
        "multi30k: data.test=2018_flickr; can be repeated.",
    ),
]


def _trust_code(trusted: bool) -> bool:
    """Apply `--trust-code` to every run directory that the command opens. Changed code is reported as a note."""
    if trusted:
        from regard.config import plugins

        plugins.trust_runs()
        default: Any = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
            if category is plugins.CodeChangedWarning:
                note(str(message))
            else:
                default(message, category, *place, **options)

        warnings.showwarning = cast(Any, show)
    return trusted


# The callback does the work: a command need not pass the value on.
TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        callback=_trust_code,
        help="Execute the code outside Regard that a run was trained with (plug-ins).",
    ),
]


@dataclass
class ModelOptions:
    """How a command loads models: the values of `--device` and `--precision`, whose callbacks set them.

    Args:
        device: `auto`, `cpu`, `mps`, `cuda` or `cuda:N`.
        precision: `float32`, `bfloat16` or `float16`.
    """

    device: str = "auto"
    precision: str = "float32"


MODEL_OPTIONS = ModelOptions()


class PrecisionName(StrEnum):
    """The values of `--precision`."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def _set_model_option(parameter: typer.CallbackParam, value: str) -> str:
    """Apply `--device` or `--precision` to every model that the command loads."""
    setattr(MODEL_OPTIONS, str(parameter.name), str(value))
    return value


# As that of `--trust-code`, the callbacks do the work.
Device = Annotated[
    str,
    typer.Option(
        callback=_set_model_option,
        metavar="auto|cpu|mps|cuda|cuda:N",
        help="The device that computes; auto is a GPU if there is one.",
    ),
]
Precision = Annotated[
    PrecisionName,
    typer.Option(callback=_set_model_option, help="The precision in which the model computes; float16 needs a GPU."),
]


def search_option(name: str, metavar: str | None = None) -> Any:
    """The flag of a search option, with the help, the bounds and the group of `SearchOptions`.

    The bounds are only shown here: `SearchOptions` checks them, in one place for every command.
    """
    text, bounds = SearchOptions.model_fields[name].description or "", bounds_text(name)
    return typer.Option(
        f"--{flag_name(name)}",
        help=add_remarks(text, *[bounds] * bool(bounds)),
        metavar=metavar,
        rich_help_panel=option_group(name),
    )


Beam = Annotated[int, search_option("beam")]
Beams = Annotated[str, search_option("beam", metavar="N,…")]
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
    """The values of `--split`."""

    train = "train"
    validation = "validation"
    test = "test"


Split = Annotated[SplitName, typer.Option(help="The split whose sentences are used.")]


class AttentionName(StrEnum):
    """The values of `--attention`."""

    source = "source"
    encoder = "encoder"
    decoder = "decoder"


class AlignmentForm(StrEnum):
    """The values of `--alignments`."""

    moses = "moses"
