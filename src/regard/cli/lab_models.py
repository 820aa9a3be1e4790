"""Commands of `regard lab` that run a small encoder or decoder with given weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import options
from regard.cli.report_output import check_output_path, print_report

if TYPE_CHECKING:
    from regard.laboratory.lab_report import LabReport
    from regard.laboratory.worked_decoder import DecoderExample

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


def encoder_command(
    words: Annotated[str | None, typer.Option(help="The sentence (default: The cat sat).")] = None,
    embeddings: options.MatrixText = None,
    cell: Annotated[str, typer.Option(metavar="tanh|gru|lstm", help="The recurrent cell.")] = "tanh",
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


def decoder_command(
    option: Any, summary: str, make_report: Callable[[str, DecoderExample], LabReport]
) -> Callable[..., None]:
    """A command that runs the worked decoder on one text, with the options of all its weights.

    Args:
        option: The option of the text, with its default.
        summary: The help of the command.
        make_report: Makes the report of the text and the decoder.
    """

    def command(
        text: str = option,
        vocabulary: Annotated[str, typer.Option(help="The words of the decoder; <begin> and <end> are added.")] = (
            "Le chat dort"
        ),
        states: options.MatrixText = None,
        embeddings: options.MatrixText = None,
        input_weights: options.MatrixText = None,
        state_weights: options.MatrixText = None,
        bias: Bias = None,
        output_weights: options.MatrixText = None,
        output_bias: options.MatrixText = None,
        out: options.Out = None,
        as_json: options.WholeJson = False,
    ) -> None:
        paths = check_output_path(out)
        from regard.laboratory.matrix_parsing import parse_matrices
        from regard.laboratory.worked_decoder import DecoderExample

        given: dict[str, Any] = {
            **parse_matrices(
                states=states,
                embeddings=embeddings,
                input_weights=input_weights,
                state_weights=state_weights,
                bias=bias,
                output_weights=output_weights,
                output_bias=output_bias,
            )
        }
        print_report(make_report(text, DecoderExample(vocabulary, **given)), paths, as_json)

    command.__doc__ = summary
    return command


def _decoder_report(prefix: str, example: DecoderExample) -> LabReport:
    from regard.laboratory.worked_decoder import decoder_report

    return decoder_report(prefix, example)


def _teacher_forcing_report(target: str, example: DecoderExample) -> LabReport:
    from regard.laboratory.teacher_forcing import teacher_forcing_report

    return teacher_forcing_report(target, example)


COMMANDS: dict[str, Callable[..., None]] = {
    "encoder": encoder_command,
    "decoder": decoder_command(
        typer.Option("Le", "--prefix", help="The words before the step that is shown."),
        "One step of a decoder: attention, the next state, probabilities (Week 4 slides).",
        _decoder_report,
    ),
    "teacher-forcing": decoder_command(
        typer.Option("Le chat dort", "--target", help="The sentence, of words in the vocabulary."),
        "Teacher forcing and free running on one sentence, step by step (Week 4 slides).",
        _teacher_forcing_report,
    ),
}
