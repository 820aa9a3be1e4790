"""The commands. What a command needs is imported when it runs, so that `regard --help` answers at once."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from regard import __version__
from regard.errors import UserError

app = typer.Typer(
    name="regard",
    help="Sequence-to-sequence learning with attention: train, translate and inspect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, made by 'regard train'.")]


class SplitName(StrEnum):
    train = "train"
    validation = "validation"
    test = "test"


def main() -> None:
    """Run a command; what a user has done wrong ends with exit code 2 and without a traceback."""
    try:
        app()
    except UserError as error:
        fail(str(error))
    except OSError as error:  # a full disk, say; typer itself has dealt with a broken pipe and with Ctrl-C
        fail(f"{error.filename or 'writing'}: {error.strerror}")
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # torch has no class of its own for this
            raise
        fail("not enough memory; make the model, training.batch_tokens or the text smaller")


def fail(message: str) -> NoReturn:
    for line in message.splitlines():
        print(f"regard: {line}", file=sys.stderr)
    sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def regard(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    pass


@app.command()
def recipes() -> None:
    """List the built-in experiments."""
    from regard import experiments
    from regard import recipes as built_in

    names = built_in.names()
    width = max(len(name) for name in names)
    for name in names:
        print(f"{name:{width}}  {experiments.load(name).description}")


@app.command()
def train(
    experiment: Annotated[str, typer.Argument(help="A recipe's name, or a path to a YAML file.")],
    out: Annotated[Path | None, typer.Option(help="The run directory.  [default: runs/EXPERIMENT]")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting.")] = None,
) -> None:
    """Train a model, or go on where training stopped."""
    from regard import experiments
    from regard.cli.progress import Interruptions, observer

    settings = experiments.load(experiment, set_ or [])
    path = out or Path("runs") / Path(experiment).stem
    with Interruptions() as interruptions:
        from regard.training import train as run_training

        with observer(interruptions) as watching:
            progress = run_training(settings, path, watching)
    if not progress.finished:
        print(f"{path}: stopped after step {progress.step:,}; the same command goes on from there", file=sys.stderr)
        sys.exit(interruptions.exit_code)
    print(
        f"{path}: done ({progress.finished}), {progress.step:,} steps in {progress.seconds:.0f} s; "
        f"best validation loss {progress.best_loss:.4f}, after step {progress.best_step:,}"
    )


@app.command()
def translate(
    run: Run,
    texts: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]...", help="[default: standard input]")] = None,
) -> None:
    """Translate texts, or lines from standard input: one answer a line, in order."""
    from regard.cli.lines import check, chunks, note
    from regard.cli.loading import load

    translator = load(run)
    for chunk in chunks(texts):
        check(chunk, translator)
        for line, translation in zip(chunk, translator.translate([line.text for line in chunk]), strict=True):
            print(translation.text)
            if not translation.finished:
                note(f"{line.origin}: cut off after {len(translation.tokens)} tokens, the most that is allowed")
        sys.stdout.flush()


@app.command()
def evaluate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One run directory, or several to compare.")],
    split: Annotated[SplitName, typer.Option(help="Which sentences.")] = SplitName.test,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a run.")] = False,
) -> None:
    """Score a run, or several side by side."""
    from regard.cli.loading import load, use_threads_of
    from regard.cli.tables import comparison
    from regard.evaluation import scores

    results = []
    for translator in [load(run) for run in runs]:
        use_threads_of(translator)
        results.append(scores.as_json(scores.evaluate(translator, split.value)))
        if as_json:
            print(json.dumps(results[-1]), flush=True)
    if not as_json:
        print(comparison(results))


@app.command()
def show(
    run: Run,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The text whose attention to draw.")] = None,
    out: Annotated[Path | None, typer.Option(help="The attention map: .png, .svg or .pdf.")] = None,
    curves: Annotated[Path | None, typer.Option(help="The learning curves: .png, .svg or .pdf.")] = None,
) -> None:
    """Draw where the model looked, or how it learned."""
    from regard.cli.pictures import draw_attention, draw_curves
    from regard.inspection.figures import check_suffix

    if out is None and curves is None:
        raise UserError("nothing to draw: give --out FILE with a text, or --curves FILE")
    if (out is None) != (text is None):
        raise UserError("an attention map needs both: a text, and --out FILE to draw it to")
    for path in (out, curves):
        if path is not None:
            check_suffix(path)
    if curves is not None:
        draw_curves(run, curves)
    if out is not None and text is not None:
        draw_attention(run, text, out)
