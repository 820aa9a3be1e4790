"""The command line program: the table of its commands, and what happens to errors."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from regard import __version__
from regard.cli.lazy_group import LazyCommand, LazyGroup
from regard.errors import UserError


class RegardCommands(LazyGroup):
    """The commands of `regard`, in the order of the help."""

    lazy_commands = {  # noqa: RUF012
        "recipes": LazyCommand("regard.cli.training_commands:recipes_command", "List the built-in experiments."),
        "train": LazyCommand(
            "regard.cli.training_commands:train_command", "Train a model, or continue a training that was stopped."
        ),
        "translate": LazyCommand(
            "regard.cli.translation_commands:translate_command",
            "Translate texts, or lines from standard input: one translation per line, in order.",
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
            "Measure the gradient at each source position, through the bottleneck and through attention.",
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
        "data": LazyCommand("regard.cli.data_commands:data", "Download known parallel text, and check your own."),
        "lab": LazyCommand(
            "regard.cli.lab:lab",
            "Worked examples and experiments that need no trained model; without a command, list them.",
        ),
    }


app = typer.Typer(
    name="regard",
    cls=RegardCommands,
    help="Sequence-to-sequence learning with attention: train, translate and inspect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run a command. A user error ends with exit code 2 and without a traceback."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for characters that the terminal's encoding does not have
    try:
        app()
    except UserError as error:
        fail(str(error))
    except OSError as error:  # for example a full disk; typer handles broken pipes and Ctrl-C
        fail(f"{error.filename or 'writing'}: {error.strerror or error}")
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # torch raises no specific class
            raise
        fail("not enough memory; reduce the model, training.batch_tokens, the beam width or the text")


def fail(message: str) -> NoReturn:
    """Print an error and exit with code 2."""
    for line in message.splitlines():
        print(f"regard: {line}", file=sys.stderr)
    sys.exit(2)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def regard(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options of `regard` itself."""
