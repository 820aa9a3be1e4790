"""`regard lab`: worked examples, a test of variances, and experiments with attention heads."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli import lab_models, options
from regard.cli.help import CommandTable
from regard.cli.options import MatrixText
from regard.cli.report_output import check_output_path, print_report
from regard.terminal.output import print_result
from regard.terminal.tables import print_table

lab = CommandTable()


@lab.callback(invoke_without_command=True)
def list_experiments(context: typer.Context, as_json: options.WholeJson = False) -> None:
    """`regard lab` without a command: list the commands."""
    if context.invoked_subcommand is not None:
        return
    summaries = {
        command.name or "": (command.callback.__doc__ or "").splitlines()[0] for command in lab.registered_commands
    }
    if as_json:
        print_result(json.dumps(summaries, ensure_ascii=False))
        return
    print_table(["command", "what it shows"], list(summaries.items()), right=[False, False])


@lab.command("qkv")
def qkv_command(
    states: MatrixText = None,
    query_weights: MatrixText = None,
    key_weights: MatrixText = None,
    value_weights: MatrixText = None,
    scaled: Annotated[bool, typer.Option("--scaled", help="Divide scores by √d.")] = False,
    hard: Annotated[bool, typer.Option("--hard", help="Use argmax in place of softmax.")] = False,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Queries, keys and values: self-attention by hand (EECS 182 Discussion 8)."""
    paths = check_output_path(out)
    from regard.laboratory.matrix_parsing import parse_matrices
    from regard.laboratory.worked_examples import qkv_report

    given = parse_matrices(
        states=states, query_weights=query_weights, key_weights=key_weights, value_weights=value_weights
    )
    print_report(qkv_report(**given, scaled=scaled, hard=hard), paths, as_json)


@lab.command("softmax")
def softmax_command(scores: MatrixText = None, out: options.Out = None, as_json: options.WholeJson = False) -> None:
    """Softmax: from scores to weights (Week 4 slides)."""
    paths = check_output_path(out)
    from regard.laboratory.matrix_parsing import parse_matrices
    from regard.laboratory.worked_examples import softmax_report

    print_report(softmax_report(**parse_matrices(scores=scores)), paths, as_json)


@lab.command("context")
def context_command(
    weights: MatrixText = None,
    values: MatrixText = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """The context vector: a weighted sum of values (Week 4 slides)."""
    paths = check_output_path(out)
    from regard.laboratory.matrix_parsing import parse_matrices
    from regard.laboratory.worked_examples import context_report

    print_report(context_report(**parse_matrices(weights=weights, values=values)), paths, as_json)


@lab.command("bleu")
def bleu_command(
    hypothesis: Annotated[
        str | None, typer.Option(help="The output of a model (default: that of the Week 4 slides).")
    ] = None,
    reference: Annotated[str | None, typer.Option(help="The reference translation.")] = None,
    max_ngram_order: Annotated[int | None, typer.Option(help="The longest n-grams, in words (default: 4).")] = None,
    floor: Annotated[
        float | None, typer.Option(help="Replace an n-gram count of 0 by this (default: sacreBLEU's smoothing).")
    ] = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """BLEU of one sentence, n-gram by n-gram (Week 4 slides)."""
    paths = check_output_path(out)
    from regard.laboratory.worked_bleu import bleu_report

    report = bleu_report(hypothesis, reference, max_ngram_order=max_ngram_order, floor=floor)
    print_report(report, paths, as_json)


for model_name, model_command in lab_models.COMMANDS.items():
    lab.command(model_name)(model_command)


@lab.command("set")
def set_command(
    states: MatrixText = None,
    permutation: Annotated[
        str | None,
        typer.Option(
            metavar="3,1,2", help="Which state comes first, second, …, counted from 1 (default: the reverse order)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the random states and weights.")] = 1,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Attention treats states as a set: their order does not matter without positions (QTM 447)."""
    paths = check_output_path(out)
    from regard.laboratory.matrix_parsing import parse_indices, parse_matrices
    from regard.laboratory.set_property import set_report

    given = parse_matrices(states=states)
    order = None if permutation is None else parse_indices("--permutation", permutation)
    print_report(set_report(given.get("states"), order, seed=seed), paths, as_json)


@lab.command("variance")
def variance_command(
    variances: MatrixText = None,
    runs: Annotated[int, typer.Option(help="The number of runs of each setting.")] = 3,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """F-tests and Bartlett's test of variances over seeds (CS224n-style homework)."""
    paths = check_output_path(out)
    from regard.laboratory.matrix_parsing import parse_matrices
    from regard.laboratory.variances import variance_report

    print_report(variance_report(**parse_matrices(variances=variances), runs=runs), paths, as_json)


def add_experiment(name: str, summary: str) -> None:
    """Add a command for one of `regard.laboratory.head_experiments.EXPERIMENTS`."""

    def experiment(
        scale: Annotated[float | None, typer.Option(help="s, the factor of the query (default: 50).")] = None,
        noise: Annotated[
            float | None,
            typer.Option(help="β, the standard deviation of key lengths, whose mean is 1 (default: 0 or 0.1)."),
        ] = None,
        orientation_noise: Annotated[
            float, typer.Option(help="ε, the root mean squared length of noise that is added in all directions.")
        ] = 0.0,
        query_from: Annotated[
            str, typer.Option(metavar="means|keys", help="Sum the means of keys to a query, or the noisy keys.")
        ] = "means",
        keys: Annotated[int, typer.Option(help="The number of keys.")] = 5,
        size: Annotated[int | None, typer.Option(help="d, the size of keys (default: their number).")] = None,
        subset: Annotated[
            str | None,
            typer.Option(metavar="1,2", help="The values that are copied or averaged, from 1 (default: 1, or 1,2)."),
        ] = None,
        draws: Annotated[int, typer.Option(help="The number of random draws of the keys.")] = 1000,
        seed: Annotated[int, typer.Option(help="The seed of the draws.")] = 1,
        out: options.Out = None,
        as_json: options.WholeJson = False,
    ) -> None:
        paths = check_output_path(out)
        from regard.laboratory.head_experiments import EXPERIMENTS
        from regard.laboratory.head_options import head_options
        from regard.laboratory.head_report import head_report
        from regard.laboratory.matrix_parsing import parse_indices

        chosen = head_options(
            EXPERIMENTS[name],
            scale=scale,
            noise=noise,
            orientation_noise=orientation_noise,
            query_from=query_from,
            keys=keys,
            size=size,
            subset=None if subset is None else parse_indices("--subset", subset),
            draws=draws,
            seed=seed,
        )
        print_report(head_report(EXPERIMENTS[name], chosen), paths, as_json)

    experiment.__doc__ = summary
    lab.command(name)(experiment)


add_experiment("copy", "One head copies a value, if its query is long enough (CS224n-style homework).")
add_experiment("average", "One head averages two values, or any subset, if its query is long enough.")
add_experiment("noisy-average", "One head with keys of random length: the output alternates between values.")
add_experiment("two-heads", "One head for each value, with keys of random length: the average is stable.")


@lab.command("positions")
def positions_command(
    size: Annotated[int, typer.Option(help="The size of a sinusoidal encoding.")] = 64,
    length: Annotated[int, typer.Option(help="The number of positions.")] = 100,
    first_frequency: Annotated[
        int, typer.Option(help="The first k of ω_k = 1/10000^(2k/size): 0 as in the Transformer, 1 as in EECS 182.")
    ] = 0,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Sinusoidal and one-hot position encodings, and their similarity by distance."""
    paths = check_output_path(out)
    from regard.laboratory.positions import position_report

    print_report(position_report(size, length, first_frequency), paths, as_json)
