"""The commands. What a command needs is imported when it runs, so that `regard --help` answers at once."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from regard import __version__
from regard.cli import inspect_commands, lab, options, serve
from regard.errors import UserError
from regard.search.options import GREEDY, SearchOptions

app = typer.Typer(
    name="regard",
    help="Sequence-to-sequence learning with attention: train, translate and inspect.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

data = typer.Typer(help="Parallel text: get known data sets, check your own.", no_args_is_help=True)
app.add_typer(data, name="data")
app.add_typer(lab.lab, name="lab")


def main() -> None:
    """Run a command; what a user has done wrong ends with exit code 2 and without a traceback."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # whoever started us has closed it
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a text or a file's name may not be of this encoding
    try:
        app()
    except UserError as error:
        fail(str(error))
    except OSError as error:  # a full disk, say; typer itself has dealt with a broken pipe and with Ctrl-C
        fail(f"{error.filename or 'writing'}: {error.strerror or error}")
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # torch has no class of its own for this
            raise
        fail("not enough memory; make the model, training.batch_tokens, the beam or the text smaller")


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
    from regard.config import loading
    from regard.config import recipes as built_in

    names = built_in.recipe_names()
    width = max(len(name) for name in names)
    for name in names:
        print(f"{name:{width}}  {loading.read_description(name)}")


@app.command()
def train(
    experiment: Annotated[str, typer.Argument(help="A recipe's name, or a path to a YAML file.")],
    out: Annotated[Path | None, typer.Option(help="The run directory (default: runs/EXPERIMENT).")] = None,
    set_: options.Set = None,
) -> None:
    """Train a model, or continue a training that was stopped."""
    from regard.cli.progress import InterruptHandler, training_observer
    from regard.config import loading

    settings = loading.load_experiment(experiment, set_ or [])
    path = out or Path("runs") / Path(experiment).stem
    with InterruptHandler() as interrupts:
        from regard.training import TrainingStopped
        from regard.training.trainer import train_run

        with training_observer(interrupts) as observer:
            try:
                run, progress = train_run(settings, path, observer)
            except TrainingStopped:
                stop_early(f"{path}: stopped while reading the data", interrupts.exit_code)
    if not progress.finished:
        stop_early(f"{path}: stopped after step {progress.step:,}", interrupts.exit_code)
    print(
        f"{path}: done ({progress.finished}), {progress.step:,} steps in {progress.seconds:.0f} s; "
        f"best validation loss {progress.best_loss:.4f}, after step {progress.best_step:,}"
    )
    from regard.cli.evaluate import print_final_evaluation
    from regard.evaluation.final import needs_final_evaluation

    if not needs_final_evaluation(run):
        return
    if interrupts.signal:
        stop_early(f"{path}: stopped before the evaluation on the test set", interrupts.exit_code)
    print_final_evaluation(run)


def stop_early(message: str, exit_code: int) -> NoReturn:
    print(f"{message}; run the same command to continue", file=sys.stderr)
    sys.exit(exit_code)


@app.command()
def compare(
    experiment: Annotated[str | None, typer.Argument(help="A recipe's name, or a path to a YAML file.")] = None,
    vary: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE,VALUE...", help="A setting that differs from run to run.")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE,VALUE...", help="How each model is tested: beam, length_penalty, data.…"),
    ] = None,
    set_: options.Set = None,
    seeds: options.Seeds = None,
    baseline: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="What others are held against (default: the first).")
    ] = None,
    measure: Annotated[
        list[str] | None, typer.Option(help="What to compare by; the first decides (default: by the task).")
    ] = None,
    method: options.Method = None,
    config: Annotated[Path | None, typer.Option(help="A study that was written down: a YAML file.")] = None,
    out: Annotated[Path | None, typer.Option(help="The report's folder (default: studies/NAME).")] = None,
    runs: options.Runs = None,
    jobs: options.Jobs = None,
    report: options.Report = False,
    as_json: options.WholeJson = False,
) -> None:
    """Train a grid of settings times seeds, and tell which is better, and how sure that is."""
    from regard.cli.study import DEFINITION, read_definition, run_study
    from regard.studies import parsing

    if (experiment is None) == (config is None):
        raise UserError("say what to compare: an experiment with --vary, or --config FILE")
    leaves = parsing.override_leaves(
        parsing.parse_study_file(config) if config else [],
        experiment=experiment,
        vary=vary,
        test=test,
        set=set_,
        seeds=seeds,
        baseline=baseline,
        measures=measure,
        method=method and method.value,
    )
    if out is None:
        goes_on = config is not None and config.name == DEFINITION and read_definition(config.parent) is not None
        out = config.parent if config and goes_on else Path("studies") / Path(str(config or experiment)).stem
    study = parsing.build_study(out.resolve().name, leaves, config.parent if config else Path())
    run_study(study, out, runs or out.parent / "runs", jobs or cores(), report_only=report, as_json=as_json)


@app.command()
def study(
    name: Annotated[str, typer.Argument(help="Which; 'list' lists them.")],
    set_: options.Set = None,
    seeds: options.Seeds = None,
    method: options.Method = None,
    out: Annotated[Path | None, typer.Option(help="The report's folder (default: studies/NAME).")] = None,
    runs: options.Runs = None,
    jobs: options.Jobs = None,
    report: options.Report = False,
    as_json: options.WholeJson = False,
) -> None:
    """Conduct one of the built-in studies: each answers a question about attention."""
    from regard.studies import built_in, parsing

    if name == "list":
        width = max(map(len, built_in.study_names()))
        for each in built_in.study_names():
            print(f"{each:{width}}  {built_in.study_question(each)}")
        return
    known = parsing.parse_study(built_in.read_study(name), f"study {name}")
    leaves = parsing.override_leaves(known, set=set_, seeds=seeds, method=method and method.value)
    from regard.cli.study import run_study

    out = out or Path("studies") / name
    built = parsing.build_study(name, leaves)
    run_study(built, out, runs or out.parent / "runs", jobs or cores(), report_only=report, as_json=as_json)


def cores() -> int:
    """How many processes can work at once here."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@data.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="Which: multi30k.")],
    origin: Annotated[
        str | None, typer.Option("--from", metavar="FOLDER|URL", help="Where it lies already, in place of the net.")
    ] = None,
) -> None:
    """Get a known data set, and check that it is what it should be."""
    from regard.cli.data_get import print_get

    print_get(name, origin)


@data.command("check")
def data_check(
    source: Annotated[Path, typer.Option(help="A text a line; or a .tsv file with source and target.")],
    target: Annotated[Path | None, typer.Option(help="Their translations, a text a line.")] = None,
    test_source: Annotated[
        Path | None, typer.Option(help="The sources of a test set, to be held against these.")
    ] = None,
    test_target: Annotated[Path | None, typer.Option(help="Its targets.")] = None,
    as_json: options.Json = False,
) -> None:
    """Report on parallel text before training: lengths, words, repetitions, all that is wrong."""
    from regard.cli.data_check import print_check

    if test_target and not test_source:
        raise UserError("--test-target: give its sources as well, with --test-source")
    print_check(source, target, (test_source, test_target) if test_source else None, as_json)


@app.command()
def translate(
    runs_and_texts: Annotated[
        list[str],
        typer.Argument(metavar="RUN|TEXT", help="A run, or several that vote; then texts, or else standard input."),
    ],
    beam: options.Beam = GREEDY.beam,
    n_best: options.NBest = GREEDY.n_best,
    length_penalty: options.LengthPenalty = GREEDY.length_penalty,
    sample: options.Sample = GREEDY.sample,
    temperature: options.Temperature = GREEDY.temperature,
    top_k: options.TopK = GREEDY.top_k,
    top_p: options.TopP = GREEDY.top_p,
    seed: options.Seed = GREEDY.seed,
    prefix: options.Prefix = str(GREEDY.prefix),
    min_length: options.MinLength = GREEDY.min_length,
    block_ngrams: options.BlockNgrams = GREEDY.block_ngrams,
    repetition_penalty: options.RepetitionPenalty = GREEDY.repetition_penalty,
    alignments: Annotated[
        options.AlignmentForm | None, typer.Option(help="Add which source token each output token looked at most.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Translate texts, or lines from standard input: one answer a line, in order."""
    from regard.cli import translate
    from regard.cli.loading import split_runs

    if as_json and alignments:
        raise UserError("--json has the alignments already; leave out one of --json and --alignments")
    search = SearchOptions(
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        prefix=prefix,
        min_length=min_length,
        block_ngrams=block_ngrams,
        repetition_penalty=repetition_penalty,
    )
    aligned = alignments is not None
    output_format = translate.json_format if as_json else translate.text_format(listed=n_best > 1, aligned=aligned)
    translate.print_translations(*split_runs(runs_and_texts), search, output_format, aligned=aligned)


@app.command()
def score(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="A run directory, or several that vote.")],
    source: Annotated[Path, typer.Option(help="What is translated, a text a line.")],
    target: Annotated[Path, typer.Option(help="Its translations, a text a line.")],
    as_json: options.Json = False,
) -> None:
    """Log-probability and perplexity of given translations, a line each."""
    from regard.cli.translate import print_scores

    print_scores(runs, source, target, as_json)


@app.command()
def evaluate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="One run directory, or several to compare.")],
    split: Annotated[options.SplitName, typer.Option(help="Which sentences.")] = options.SplitName.test,
    beam: options.Beams = str(GREEDY.beam),
    length_penalty: options.LengthPenalty = GREEDY.length_penalty,
    as_json: options.Json = False,
) -> None:
    """Score a run, or several side by side, with one beam or several."""
    from regard.cli.evaluate import parse_beam_widths, print_evaluations

    searches = [SearchOptions(beam=width, length_penalty=length_penalty) for width in parse_beam_widths(beam)]
    print_evaluations(runs, split.value, searches, as_json)


@app.command()
def show(
    run: options.Run,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="The text to look into.")] = None,
    out: Annotated[Path | None, typer.Option(help="The attention map: .png, .svg or .pdf.")] = None,
    tree: Annotated[Path | None, typer.Option(help="The beam as a tree: .png, .svg or .pdf.")] = None,
    curves: Annotated[Path | None, typer.Option(help="The learning curves: .png, .svg or .pdf.")] = None,
    layer: Annotated[int | None, typer.Option(help="Of the map: only this layer, from 1.")] = None,
    head: Annotated[int | None, typer.Option(help="Of the map: only this head, from 1.")] = None,
    rank: Annotated[int, typer.Option(help="Which of the best hypotheses, from 1.")] = 1,
    beam: options.Beam = GREEDY.beam,
    length_penalty: options.LengthPenalty = GREEDY.length_penalty,
    prefix: options.Prefix = str(GREEDY.prefix),
    as_json: Annotated[bool, typer.Option("--json", help="For programs: what is drawn of the text, as JSON.")] = False,
) -> None:
    """Draw where the model looked, how its beam went, or how it learned."""
    from regard.cli import show
    from regard.plotting.figures import check_suffix

    if out is None and curves is None and tree is None and not as_json:
        raise UserError("nothing to draw: give --out FILE or --tree FILE with a text, or --curves FILE")
    if (out is None and tree is None and not as_json) != (text is None):
        raise UserError("a map or a tree needs both: a text, and --out FILE, --tree FILE or --json for it to go to")
    numbers = {name: number for name, number in (("layer", layer), ("head", head)) if number is not None}
    if out is None and numbers:
        raise UserError("--layer and --head are about the attention map: give --out FILE")
    if out is None and rank != 1 and not as_json:
        raise UserError("--rank is about the attention map: give --out FILE, or --json")
    paths = [path for path in (out, tree, curves) if path is not None]
    for path in paths:
        check_suffix(path)
        if paths.count(path) > 1:
            raise UserError(f"{path}: only one picture can be drawn to one file")
    if text is not None:
        if not 1 <= rank <= max(beam, 1):
            raise UserError(f"--rank {rank}: a beam of width {beam} has hypotheses of rank 1 to {beam}")
        search = SearchOptions(beam=beam, n_best=rank, length_penalty=length_penalty, prefix=prefix)
        show.draw_text(run, text, search, numbers, out=out, tree=tree, as_json=as_json)
    if curves is not None:
        show.save_learning_curves(run, curves)


for name, command in inspect_commands.COMMANDS.items():
    app.command(name)(command)
app.command()(serve.serve)
