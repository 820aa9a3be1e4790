"""`regard lab`: worked examples, and what attention can compute."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from regard.cli import options
from regard.cli.report_output import check_output_path, print_report

lab = typer.Typer(help="Worked examples, and what attention can compute; alone, it lists them.")

Matrix = Annotated[str | None, typer.Option(metavar="'A,B; C,D'", help="Rows of numbers (default: the example's).")]


@lab.callback(invoke_without_command=True)
def listed(context: typer.Context, as_json: options.WholeJson = False) -> None:
    if context.invoked_subcommand is not None:
        return
    about = {
        command.name or "": (command.callback.__doc__ or "").splitlines()[0] for command in lab.registered_commands
    }
    if as_json:
        print(json.dumps(about, ensure_ascii=False))
        return
    width = max(map(len, about))
    for name, line in about.items():
        print(f"{name:{width}}  {line}")


@lab.command("qkv")
def qkv(
    states: Matrix = None,
    query_weights: Matrix = None,
    key_weights: Matrix = None,
    value_weights: Matrix = None,
    scaled: Annotated[bool, typer.Option("--scaled", help="Divide scores by √d.")] = False,
    hard: Annotated[bool, typer.Option("--hard", help="Take the highest score alone, in place of softmax.")] = False,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Queries, keys and values: self-attention by hand, with the numbers of the discussion sheet or your own."""
    paths = check_output_path(out)
    from regard.laboratory import matrix_parsing, worked_examples

    given = matrix_parsing.parse_matrices(
        states=states, query_weights=query_weights, key_weights=key_weights, value_weights=value_weights
    )
    print_report(worked_examples.qkv_report(**given, scaled=scaled, hard=hard), paths, as_json)


@lab.command("softmax")
def softmax(scores: Matrix = None, out: options.Out = None, as_json: options.WholeJson = False) -> None:
    """From scores to weights, with the numbers of the slides or your own."""
    paths = check_output_path(out)
    from regard.laboratory import matrix_parsing, worked_examples

    print_report(worked_examples.softmax_report(**matrix_parsing.parse_matrices(scores=scores)), paths, as_json)


@lab.command("context")
def context(
    weights: Matrix = None,
    values: Matrix = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """From weights to a context, with the numbers of the slides or your own."""
    paths = check_output_path(out)
    from regard.laboratory import matrix_parsing, worked_examples

    print_report(
        worked_examples.context_report(**matrix_parsing.parse_matrices(weights=weights, values=values)), paths, as_json
    )


@lab.command("bleu")
def bleu(
    hypothesis: Annotated[str | None, typer.Option(help="What a model said (default: the slides').")] = None,
    reference: Annotated[str | None, typer.Option(help="What it should have said.")] = None,
    longest: Annotated[int | None, typer.Option(help="Up to n-grams of so many words (default: 4).")] = None,
    floor: Annotated[
        float | None, typer.Option(help="Put a count of 0 at this (default: sacreBLEU's own smoothing).")
    ] = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """BLEU of one sentence, n-gram by n-gram, with the slides' sentences or your own."""
    paths = check_output_path(out)
    from regard.laboratory import worked_bleu

    print_report(worked_bleu.bleu_report(hypothesis, reference, longest=longest, floor=floor), paths, as_json)


def add_experiment(name: str, about: str) -> None:
    """A command for one of `regard.laboratory.head_experiments.EXPERIMENTS`."""

    def experiment(
        beta: Annotated[float | None, typer.Option(help="β, how much longer a query is than a key.")] = None,
        sigma: Annotated[float | None, typer.Option(help="σ, the standard deviation of a key's length, 1.")] = None,
        keys: Annotated[int, typer.Option(help="How many keys there are.")] = 5,
        draws: Annotated[int, typer.Option(help="How often keys are drawn.")] = 1000,
        seed: Annotated[int, typer.Option(help="The same seed, the same draws.")] = 1,
        out: options.Out = None,
        as_json: options.WholeJson = False,
    ) -> None:
        paths = check_output_path(out)
        from regard.laboratory.head_experiments import EXPERIMENTS
        from regard.laboratory.head_report import head_report

        chosen = EXPERIMENTS[name]
        print_report(head_report(chosen, beta=beta, sigma=sigma, keys=keys, draws=draws, seed=seed), paths, as_json)

    experiment.__doc__ = about
    lab.command(name)(experiment)


add_experiment("copy", "One head copies a value, if its query is long enough.")
add_experiment("average", "One head averages two values, if its query is long enough.")
add_experiment("noisy-average", "The same with keys of random length: the output swings from one value to the other.")
add_experiment("two-heads", "Two heads copy a value each, and their average holds still.")


@lab.command("positions")
def positions(
    size: Annotated[int, typer.Option(help="How many numbers tell a position.")] = 64,
    length: Annotated[int, typer.Option(help="How many positions.")] = 100,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """How vectors tell positions: sines and one-hot, as pictures, and how alike near and far ones are."""
    paths = check_output_path(out)
    from regard.laboratory import positions as encodings

    print_report(encodings.position_report(size, length), paths, as_json)
