"""`regard translate`, `regard score` and `regard evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.completion import complete_runs
from regard.errors import UserError, printable
from regard.search.options import GREEDY, SearchOptions


def translate_command(
    runs_and_texts: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|TEXT",
            autocompletion=complete_runs,
            help="A run directory, or several as an ensemble; then texts, or PNG or JPEG files for a run that reads "
            "pictures (default: lines of --input, or standard input).",
        ),
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
        options.AlignmentForm | None,
        typer.Option(help="Add the most attended source token of each output token, as source-target pairs."),
    ] = None,
    self_attention: Annotated[
        bool, typer.Option("--self-attention", help="Include the self-attention of encoder and decoder in the JSON.")
    ] = False,
    as_json: options.Json = False,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="A file with a text on each line; plain or .gz.")
    ] = None,
    output_file: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="The file to write when all lines of --input are translated; a command that was stopped continues.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="How many processes translate --input, with one thread each (default: 1)."
        ),
    ] = None,
    cluster: options.Cluster = None,
    device: options.Device = "auto",
    precision: options.Precision = options.PrecisionName.float32,
    trust_code: options.TrustCode = False,
) -> None:
    """`regard translate`."""
    from regard.cli import translate
    from regard.cli.loading import split_runs
    from regard.inference.line_translation import OutputFormat

    output_format = OutputFormat(as_json, alignments is not None, self_attention)
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
    runs, texts = split_runs(runs_and_texts)
    if input_file is not None and texts:
        raise UserError(f"--input and {printable(texts[0])!r:.80}: give either a file or texts")
    if output_file is None:
        if jobs is not None or cluster is not None:
            raise UserError(f"{'--cluster' if jobs is None else '--jobs'} needs --input and --output")
        translate.print_translations(runs, texts, input_file, search, output_format)
    elif input_file is None:
        raise UserError("--output needs --input; without a file, write > FILE")
    else:
        translate.write_translations(runs, input_file, output_file, search, output_format, jobs, cluster)


def score_command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", autocompletion=complete_runs, help="A run directory, or several as an ensemble."),
    ],
    source: Annotated[Path, typer.Option(metavar="FILE", help="The source texts, one per line.")],
    target: Annotated[Path, typer.Option(metavar="FILE", help="Their translations, one per line.")],
    as_json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = options.PrecisionName.float32,
    trust_code: options.TrustCode = False,
) -> None:
    """`regard score`."""
    from regard.cli.translate import print_scores

    print_scores(runs, source, target, as_json)


def evaluate_command(
    runs: options.SeveralRuns,
    source: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Texts to translate, one per line, in place of a split; needs --reference."),
    ] = None,
    reference: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Their references, one per line; can be repeated.")
    ] = None,
    split: Annotated[
        options.SplitName | None, typer.Option(help="The split whose sentences are used (default: test).")
    ] = None,
    beam: options.Beams = str(GREEDY.beam),
    length_penalty: options.LengthPenalty = GREEDY.length_penalty,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="A metric of output texts besides those of the task; can be repeated."),
    ] = None,
    examples: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=100, help="Print up to N example sentences for each of seven criteria, too."
        ),
    ] = 0,
    paths: options.DataPaths = None,
    as_json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = options.PrecisionName.float32,
    trust_code: options.TrustCode = False,
) -> None:
    """`regard evaluate`."""
    from regard.cli.evaluate import parse_beam_widths, print_evaluations, split_evaluators, text_evaluators

    searches = [SearchOptions(beam=width, length_penalty=length_penalty) for width in parse_beam_widths(beam)]
    if (source is None) != (not reference):
        raise UserError("--source and --reference belong together: give both, or neither to use a split")
    if source is None or not reference:
        evaluators = split_evaluators(runs, split.value if split else "test", paths, metric or [])
    elif split or paths:
        raise UserError(f"{'--split' if split else '--set'}: give either a split or --source and --reference")
    else:
        evaluators = text_evaluators(runs, source, reference, metric or [])
    print_evaluations(evaluators, searches, as_json, examples)
