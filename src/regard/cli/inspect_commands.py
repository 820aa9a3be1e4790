"""Commands that inspect a trained model: `explain`, `trace`, `gradients`, `probe`, `align`, `faithful`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.report_output import check_output_path, print_report
from regard.search.options import GREEDY, SearchOptions

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The source text.")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="One or more run directories.")]
Split = Annotated[options.SplitName, typer.Option(help="The split whose sentences are used.")]


def explain_command(
    run: options.Run,
    text: Text,
    beam: options.Beam = GREEDY.beam,
    length_penalty: options.LengthPenalty = GREEDY.length_penalty,
    layer: Annotated[int | None, typer.Option(help="Only this layer's attention, from 1.")] = None,
    head: Annotated[int | None, typer.Option(help="Only this head's attention, from 1.")] = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Explain one translation step by step: scores, weights, context, most likely next tokens."""
    paths = check_output_path(out)
    from regard.cli.loading import load_translator_for
    from regard.laboratory.explanation_report import explanation_report

    selection = {name: number for name, number in (("layer", layer), ("head", head)) if number is not None}
    search = SearchOptions(beam=beam, length_penalty=length_penalty)
    print_report(explanation_report(load_translator_for(run, text), text, search, selection), paths, as_json)


def trace_command(run: options.Run, text: Text, out: options.Out = None, as_json: options.WholeJson = False) -> None:
    """List every tensor of one translation with its shape and the steps at which it changes."""
    paths = check_output_path(out)
    from regard.cli.loading import load_translator_for
    from regard.laboratory.tensor_trace_report import trace_report

    print_report(trace_report(load_translator_for(run, text), text), paths, as_json)


def gradients_command(
    runs: Runs,
    split: Split = options.SplitName.test,
    limit: options.Limit = 500,
    from_end: Annotated[bool, typer.Option("--from-end", help="Count positions from the end of the source.")] = False,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Use the weights before training, drawn from the run's seed.")
    ] = False,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Measure the gradient at each source position, through the bottleneck and through attention."""
    paths = check_output_path(out)
    from regard.cli.loading import load_translator
    from regard.cli.progress import ProgressMeter
    from regard.laboratory.gradient_report import gradient_report

    translators = [load_translator(run) for run in runs]
    with ProgressMeter(None, shown=not as_json) as meter:
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
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Train linear probes on the states of encoder, bottleneck and decoder."""
    paths = check_output_path(out)
    from regard.cli.loading import load_translator
    from regard.cli.progress import ProgressMeter
    from regard.laboratory.probe_report import probe_report

    with ProgressMeter(None, shown=not as_json, what="probes") as meter:
        report = probe_report(load_translator(run), limit, seed, meter.set_total, meter.advance)
    print_report(report, paths, as_json)


def align_command(
    run: options.Run,
    gold: Annotated[
        Path | None, typer.Option(help="Gold word alignments in Moses format, one line per sentence: 0-0 1-2.")
    ] = None,
    split: Split = options.SplitName.test,
    limit: options.Limit = None,
    sentence: Annotated[
        int | None, typer.Option(help="The sentence to draw, from 1 (default: longest inversion).")
    ] = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Compare attention with gold alignments; without them, measure its movement along the source."""
    paths = check_output_path(out)
    from regard.cli.loading import load_translator
    from regard.cli.progress import ProgressMeter
    from regard.laboratory.alignment_report import alignment_report

    with ProgressMeter(None, shown=not as_json) as meter:
        report = alignment_report(
            load_translator(run), split.value, limit, gold, sentence, meter.set_total, meter.advance
        )
    print_report(report, paths, as_json)


def faithful_command(
    run: options.Run,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The source text (default: the sentences of a split).")
    ] = None,
    split: Split = options.SplitName.test,
    limit: options.Limit = 100,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Compare attention with occlusion and gradient × input."""
    paths = check_output_path(out)
    from regard.cli.loading import load_translator, load_translator_for
    from regard.cli.progress import ProgressMeter
    from regard.laboratory.faithfulness_report import faithfulness_report, faithfulness_report_on_split

    if text is None:
        with ProgressMeter(None, shown=not as_json) as meter:
            report = faithfulness_report_on_split(
                load_translator(run), split.value, limit, meter.set_total, meter.advance
            )
    else:
        with ProgressMeter(None, shown=not as_json, what="tokens") as meter:
            report = faithfulness_report(load_translator_for(run, text), text, meter.set_total, meter.advance)
    print_report(report, paths, as_json)


COMMANDS: dict[str, Callable[..., None]] = {
    "explain": explain_command,
    "trace": trace_command,
    "gradients": gradients_command,
    "probe": probe_command,
    "align": align_command,
    "faithful": faithful_command,
}
