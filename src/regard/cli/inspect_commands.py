"""Commands that inspect a trained model: `show`, `explain`, `trace`, `gradients`, `probe`, `align`, `faithful`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.report_output import check_output_path, print_report
from regard.errors import UserError
from regard.search.options import GREEDY, SearchOptions

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The source text, or the file of a picture.")]
Layer = Annotated[int | None, typer.Option(help="Only the attention of this layer, counted from 1.")]
Head = Annotated[int | None, typer.Option(help="Only the attention of this head, counted from 1.")]


def show_command(
    run: options.Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The source text, or the file of a picture.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the attention map: .png, .svg or .pdf.")
    ] = None,
    tree: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the beam search as a tree: .png, .svg or .pdf.")
    ] = None,
    curves: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the learning curves: .png, .svg or .pdf.")
    ] = None,
    attention: Annotated[
        options.AttentionName,
        typer.Option(help="Draw the attention to the source, or the self-attention of encoder or decoder."),
    ] = options.AttentionName.source,
    layer: Layer = None,
    head: Head = None,
    rank: Annotated[int, typer.Option(help="The rank of the hypothesis that is drawn, from 1.")] = 1,
    beam: options.Beam = GREEDY.beam,
    length_penalty: options.LengthPenalty = GREEDY.length_penalty,
    prefix: options.Prefix = str(GREEDY.prefix),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the translation, with its tree and self-attention, as JSON.")
    ] = False,
    device: options.Device = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """`regard show`."""
    from regard.cli import show
    from regard.plotting.figures import check_suffix

    selection = selected_axes(layer, head)
    if out is None and curves is None and tree is None and not as_json:
        raise UserError("nothing to draw: give --out FILE or --tree FILE with a text, or --curves FILE")
    if (out is None and tree is None and not as_json) != (text is None):
        raise UserError("a map or a tree needs a text, and --out FILE, --tree FILE or --json")
    if out is None and selection:
        raise UserError("--layer and --head select a part of the attention map: give --out FILE")
    if out is None and attention != options.AttentionName.source:
        raise UserError(f"--attention {attention.value} selects what the attention map shows: give --out FILE")
    if out is None and rank != 1 and not as_json:
        raise UserError("--rank selects the hypothesis of the attention map: give --out FILE, or --json")
    paths = [path for path in (out, tree, curves) if path is not None]
    for path in paths:
        check_suffix(path)
        if paths.count(path) > 1:
            raise UserError(f"{path}: this file is given twice; give each picture its own file")
    if not 1 <= rank <= max(beam, 1):
        raise UserError(f"--rank {rank}: a beam of width {beam} has hypotheses of rank 1 to {beam}")
    search = SearchOptions(beam=beam, n_best=rank, length_penalty=length_penalty, prefix=prefix)
    if text is None:
        from regard.runs import Run

        opened = Run(run)
    else:
        opened = show.draw_text(
            run, text, search, selection, out=out, attention=attention.value, tree=tree, as_json=as_json
        )
    if curves is not None:
        show.save_learning_curves(opened, curves)


def selected_axes(layer: int | None, head: int | None) -> dict[str, int]:
    """The layer and the head that were given, by the names of the axes."""
    return {axis: number for axis, number in (("layer", layer), ("head", head)) if number is not None}


def explain_command(
    run: options.Run,
    text: Text,
    beam: options.Beam = GREEDY.beam,
    length_penalty: options.LengthPenalty = GREEDY.length_penalty,
    layer: Layer = None,
    head: Head = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
    device: options.Device = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """`regard explain`."""
    paths = check_output_path(out)
    from regard.cli.loading import load_and_encode
    from regard.laboratory.explanation_report import explanation_report

    search = SearchOptions(beam=beam, length_penalty=length_penalty)
    report = explanation_report(*load_and_encode(run, text), search, selected_axes(layer, head))
    print_report(report, paths, as_json)


def trace_command(
    run: options.Run,
    text: Text,
    out: options.Out = None,
    as_json: options.WholeJson = False,
    device: options.Device = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """`regard trace`."""
    paths = check_output_path(out)
    from regard.cli.loading import load_and_encode
    from regard.laboratory.tensor_trace_report import trace_report

    print_report(trace_report(*load_and_encode(run, text)), paths, as_json)


def gradients_command(
    runs: options.SeveralRuns,
    split: options.Split = options.SplitName.test,
    limit: options.Limit = 500,
    from_end: Annotated[bool, typer.Option("--from-end", help="Count positions from the end of the source.")] = False,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Use the weights before training, drawn from the run's seed.")
    ] = False,
    data_paths: options.DataPaths = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
    device: options.Device = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """`regard gradients`."""
    paths = check_output_path(out)
    from regard.cli.loading import load_with_data
    from regard.laboratory.gradient_report import gradient_report
    from regard.terminal.progress import ProgressMeter

    translators = [load_with_data("gradients", run, [split.value], data_paths) for run in runs]
    with ProgressMeter(None, shown=not as_json, what="passes") as meter:
        report = gradient_report(
            translators,
            split.value,
            limit,
            from_end=from_end,
            untrained=untrained,
            expect=meter.set_total,
            advance=meter.advance,
        )
    print_report(report, paths, as_json)


def probe_command(
    run: options.Run,
    limit: options.Limit = 4000,
    seed: Annotated[int, typer.Option(min=0, help="The seed of shuffled labels and sampled states.")] = 1,
    data_paths: options.DataPaths = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
    device: options.Device = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """`regard probe`."""
    paths = check_output_path(out)
    from regard.cli.loading import load_with_data
    from regard.laboratory.probe_report import probe_report
    from regard.terminal.progress import ProgressMeter

    translator = load_with_data("probe", run, ["train", "test"], data_paths)
    with ProgressMeter(None, shown=not as_json, what="probes") as meter:
        report = probe_report(translator, limit, seed, meter.set_total, meter.advance)
    print_report(report, paths, as_json)


def align_command(
    run: options.Run,
    gold: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Gold word alignments in Moses format, one line per sentence: 0-0 1-2."),
    ] = None,
    split: options.Split = options.SplitName.test,
    limit: options.Limit = None,
    sentence: Annotated[
        int | None, typer.Option(help="The sentence to draw, from 1 (default: longest inversion).")
    ] = None,
    data_paths: options.DataPaths = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
    device: options.Device = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """`regard align`."""
    paths = check_output_path(out)
    from regard.cli.loading import load_with_data
    from regard.laboratory.alignment_report import alignment_report
    from regard.terminal.progress import ProgressMeter

    translator = load_with_data("align", run, [split.value], data_paths)
    with ProgressMeter(None, shown=not as_json) as meter:
        report = alignment_report(translator, split.value, limit, gold, sentence, meter.set_total, meter.advance)
    print_report(report, paths, as_json)


def faithful_command(
    run: options.Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The source text (default: the sentences of a split).")
    ] = None,
    split: options.Split = options.SplitName.test,
    limit: options.Limit = 100,
    data_paths: options.DataPaths = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
    device: options.Device = "auto",
    trust_code: options.TrustCode = False,
) -> None:
    """`regard faithful`."""
    paths = check_output_path(out)
    from regard.cli.loading import load_and_encode, load_with_data
    from regard.laboratory.faithfulness_report import faithfulness_report, faithfulness_report_on_split
    from regard.terminal.progress import ProgressMeter

    if text is None:
        translator = load_with_data("faithful", run, [split.value], data_paths)
        with ProgressMeter(None, shown=not as_json) as meter:
            report = faithfulness_report_on_split(translator, split.value, limit, meter.set_total, meter.advance)
    else:
        with ProgressMeter(None, shown=not as_json, what="tokens") as meter:
            report = faithfulness_report(*load_and_encode(run, text), meter.set_total, meter.advance)
    print_report(report, paths, as_json)
