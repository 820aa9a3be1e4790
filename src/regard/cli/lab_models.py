"""Commands of `regard lab` that run a small encoder, decoder or attention mechanism, or test a table of variances."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import options
from regard.cli.report_output import check_output_path, print_report

if TYPE_CHECKING:
    from regard.laboratory.worked_decoder import DecoderExample

MatrixText = Annotated[
    str | None, typer.Option(metavar="'A,B; C,D'", help="A matrix, row by row (default: that of the example).")
]
CellMatrix = Annotated[
    str | None,
    typer.Option(
        metavar="'A,B; C,D'",
        help="Rows stacked by gates as in PyTorch: r, z, n (gru) or i, f, g, o (lstm). Default: that of the example.",
    ),
]
Bias = Annotated[
    str | None,
    typer.Option(
        metavar="'A,B'",
        help="One row, or two rows as in PyTorch: added to the input's part and to the state's part.",
    ),
]
Vocabulary = Annotated[str, typer.Option(help="The words of the decoder; <begin> and <end> are added.")]


def encoder_command(
    words: Annotated[str | None, typer.Option(help="The sentence (default: The cat sat).")] = None,
    embeddings: MatrixText = None,
    cell: Annotated[str, typer.Option(help="tanh, gru or lstm.")] = "tanh",
    input_weights: CellMatrix = None,
    state_weights: CellMatrix = None,
    bias: Bias = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """An encoder, word by word: from embeddings to the context (Week 4 slides)."""
    paths = check_output_path(out)
    from regard.laboratory.matrix_parsing import parse_matrices
    from regard.laboratory.worked_encoder import WORDS, encoder_report

    given = parse_matrices(embeddings=embeddings, input_weights=input_weights, state_weights=state_weights, bias=bias)
    print_report(encoder_report(WORDS if words is None else words, **given, cell=cell), paths, as_json)


def decoder_example(vocabulary: str, **texts: str | None) -> DecoderExample:
    """The weights of a decoder: those that were given, and those of the example for the others."""
    from regard.laboratory.matrix_parsing import parse_matrices
    from regard.laboratory.worked_decoder import DecoderExample

    given: dict[str, Any] = {**parse_matrices(**texts)}
    return DecoderExample(vocabulary, **given)


def decoder_command(
    prefix: Annotated[str, typer.Option(help="The words before the step that is shown.")] = "Le",
    vocabulary: Vocabulary = "Le chat dort",
    states: MatrixText = None,
    embeddings: MatrixText = None,
    input_weights: MatrixText = None,
    state_weights: MatrixText = None,
    bias: Bias = None,
    output_weights: MatrixText = None,
    output_bias: MatrixText = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """One step of a decoder: attention, the next state, probabilities (Week 4 slides)."""
    paths = check_output_path(out)
    from regard.laboratory.worked_decoder import decoder_report

    example = decoder_example(
        vocabulary,
        states=states,
        embeddings=embeddings,
        input_weights=input_weights,
        state_weights=state_weights,
        bias=bias,
        output_weights=output_weights,
        output_bias=output_bias,
    )
    print_report(decoder_report(prefix, example), paths, as_json)


def teacher_forcing_command(
    target: Annotated[str, typer.Option(help="The sentence, of words in the vocabulary.")] = "Le chat dort",
    vocabulary: Vocabulary = "Le chat dort",
    states: MatrixText = None,
    embeddings: MatrixText = None,
    input_weights: MatrixText = None,
    state_weights: MatrixText = None,
    bias: Bias = None,
    output_weights: MatrixText = None,
    output_bias: MatrixText = None,
    out: options.Out = None,
    as_json: options.WholeJson = False,
) -> None:
    """Teacher forcing and free running on one sentence, step by step (Week 4 slides)."""
    paths = check_output_path(out)
    from regard.laboratory.teacher_forcing import teacher_forcing_report

    example = decoder_example(
        vocabulary,
        states=states,
        embeddings=embeddings,
        input_weights=input_weights,
        state_weights=state_weights,
        bias=bias,
        output_weights=output_weights,
        output_bias=output_bias,
    )
    print_report(teacher_forcing_report(target, example), paths, as_json)


def set_command(
    states: MatrixText = None,
    permutation: Annotated[
        str | None,
        typer.Option(metavar="2,0,1", help="Which state comes first, second, …, from 0 (default: the reverse order)."),
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


COMMANDS: dict[str, Callable[..., None]] = {
    "encoder": encoder_command,
    "decoder": decoder_command,
    "teacher-forcing": teacher_forcing_command,
    "set": set_command,
    "variance": variance_command,
}
