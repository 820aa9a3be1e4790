"""The command line program: the table of its commands, and what happens to errors."""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer

from regard import __version__
from regard.cli.help import CommandTable
from regard.cli.lazy_group import LazyCommand, LazyGroup
from regard.errors import UserError, failure_message
from regard.terminal.output import Verbosity, detail, print_error, print_result, set_verbosity, verbosity_flags

INTERRUPTED = 130  # 128 + SIGINT, as shells report it
MIN_ADDRESS_SPACE = 750_000_000  # bytes


class RegardCommands(LazyGroup):
    """The commands of `regard`, in the order of the help."""

    lazy_commands = {  # noqa: RUF012
        "recipes": LazyCommand("regard.cli.training_commands:recipes_command", "List the built-in experiments."),
        "config": LazyCommand(
            "regard.cli.config_commands:config_command",
            "Print every setting of an experiment or a run, with its default and its meaning.",
        ),
        "schema": LazyCommand(
            "regard.cli.config_commands:schema_command",
            "Print the JSON schema of experiment files, by which editors complete and check them.",
        ),
        "train": LazyCommand(
            "regard.cli.training_commands:train_command", "Train a model, or continue a training that was stopped."
        ),
        "average": LazyCommand(
            "regard.cli.training_commands:average_command", "Average weights that a run has kept, as a new run."
        ),
        "translate": LazyCommand(
            "regard.cli.translation_commands:translate_command",
            "Translate texts or pictures, or lines of a file or standard input: one translation per line, in order.",
        ),
        "score": LazyCommand(
            "regard.cli.translation_commands:score_command",
            "Print log-probability and perplexity of given translations, one line each.",
        ),
        "evaluate": LazyCommand(
            "regard.cli.translation_commands:evaluate_command",
            "Score one or several runs, side by side, with one or several beam widths.",
        ),
        "show": LazyCommand(
            "regard.cli.inspect_commands:show_command",
            "Draw the attention map or the beam search of a text, or the learning curves of a run.",
        ),
        "serve": LazyCommand(
            "regard.cli.serve:serve_command",
            "Serve runs over HTTP: a web page to inspect them, and an API to translate with them.",
        ),
        "compare": LazyCommand(
            "regard.cli.study_commands:compare_command",
            "Train a grid of settings and seeds, compare the results and test which differences are significant.",
        ),
        "study": LazyCommand(
            "regard.cli.study_commands:study_command",
            "Run one of the built-in studies, each of which answers a question about attention.",
        ),
        "explain": LazyCommand(
            "regard.cli.inspect_commands:explain_command",
            "Explain one translation step by step: scores, weights, context, most likely next tokens.",
        ),
        "trace": LazyCommand(
            "regard.cli.inspect_commands:trace_command",
            "List every tensor of one translation with its shape and the steps at which it changes.",
        ),
        "gradients": LazyCommand(
            "regard.cli.inspect_commands:gradients_command",
            "Measure the gradient at source positions, by path, and at weights; and the loss with other sources.",
        ),
        "probe": LazyCommand(
            "regard.cli.inspect_commands:probe_command",
            "Train linear probes on the states of encoder, bottleneck and decoder.",
        ),
        "align": LazyCommand(
            "regard.cli.inspect_commands:align_command",
            "Compare attention with gold alignments; without them, measure its movement along the source.",
        ),
        "faithful": LazyCommand(
            "regard.cli.inspect_commands:faithful_command", "Compare attention with occlusion and gradient × input."
        ),
        "clean": LazyCommand(
            "regard.cli.clean:clean_command", "Remove the temporary files that killed processes have left."
        ),
        "data": LazyCommand(
            "regard.cli.data_commands:data", "Download known parallel text; check and filter your own."
        ),
        "lab": LazyCommand(
            "regard.cli.lab:lab",
            "Worked examples and experiments that need no trained model; without a command, list them.",
        ),
    }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        check_address_space()
        return super().resolve_command(ctx, args)


def check_address_space() -> None:
    """Raise a `UserError` if `ulimit -v` is too low for PyTorch, whose C++ code would abort the process."""
    try:
        resource: Any = import_module("resource")  # of Unix only; Windows has no such limit
    except ImportError:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < MIN_ADDRESS_SPACE:
        raise UserError(
            f"not enough memory: this process may use {limit / 1e6:,.0f} MB (ulimit -v), and PyTorch alone needs about "
            f"{MIN_ADDRESS_SPACE / 1e6:,.0f}"
        )


app = CommandTable(
    name="regard",
    cls=RegardCommands,
    help="Sequence-to-sequence learning with attention: train, translate and inspect.",
    epilog="For example, 'regard train case' trains a small model, and 'regard translate runs/case TEXT' uses it.",
    no_args_is_help=True,
    add_completion=True,
)


def run_command() -> None:
    """Run the command that the arguments name. A user error ends with exit code 2 and without a traceback."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the terminal's encoding does not have
    set_verbosity(Verbosity.NORMAL)
    started_at = time.monotonic()
    failure = ""
    try:
        app()
    except Exception as error:
        if is_interrupt(error):
            sys.exit(INTERRUPTED)
        failure = failure_message(error)  # for example of a full disk; typer handles broken pipes and Ctrl-C
        if not failure:
            raise
    finally:
        detail(f"{time.monotonic() - started_at:.1f} s")
    if failure:  # not within `except`: if memory is short, what the error refers to is freed first
        fail(failure)


def is_interrupt(error: BaseException | None) -> bool:
    """True if Ctrl-C is the cause: an extension module that it interrupts while it is imported raises another error."""
    return error is not None and (
        isinstance(error, KeyboardInterrupt) or is_interrupt(error.__cause__ or error.__context__)
    )


def fail(message: str) -> NoReturn:
    """Print an error and exit with code 2."""
    for line in message.splitlines():
        print_error(f"regard: {line}")
    sys.exit(2)


def _print_version(requested: bool) -> None:
    if requested:
        print_result(f"regard {__version__}")
        raise typer.Exit


def _apply_verbosity(parameter: typer.CallbackParam, requested: bool) -> None:
    """Apply `--quiet` or `--verbose`, before or after the command's name."""
    if requested:
        if verbosity_flags() not in ([], [f"--{parameter.name}"]):
            raise UserError("give either --quiet or --verbose")
        set_verbosity(Verbosity[f"{parameter.name}".upper()])


@app.callback()
def regard(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            callback=_apply_verbosity,
            expose_value=False,
            help="Print results and errors only: no progress and no notes.",
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            callback=_apply_verbosity,
            expose_value=False,
            help="Also print details: files, device, settings in use, speed and time.",
        ),
    ] = False,
) -> None:
    """The options of `regard` itself."""
