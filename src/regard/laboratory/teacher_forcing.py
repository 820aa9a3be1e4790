"""Teacher forcing and free running: the worked decoder on one target sentence, step by step.

With teacher forcing the input of a step is the previous word of the target; in free running it is the previous
prediction. The loss of a step is −log p(target). The logits are those of `Decoder.teacher_forced` and
`Decoder.scheduled_sampling`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from regard.laboratory.formatting import format_number
from regard.laboratory.lab_report import LabReport
from regard.laboratory.worked_decoder import DEFAULT_DECODER, DecoderExample
from regard.laboratory.worked_encoder import split_words
from regard.laboratory.worked_steps import steps_report
from regard.plotting.matrix_steps import ColorScale, Grid
from regard.plotting.symbols import Formula
from regard.reports.report_page import ReportSection, Table
from regard.torch_state import private_torch_state

TARGET = "Le chat dort"
TEACHER_FORCING, FREE_RUNNING = "teacher forcing", "free running"
READS = {TEACHER_FORCING: "target", FREE_RUNNING: "prediction"}
KEY = "frame: the target; bold: the prediction, the most likely word; arrow: to the input of the next step"
LEAD = (
    "The same decoder predicts the same target twice: with teacher forcing each step reads the previous word of the "
    "target, in free running it reads the decoder's own prediction, as at inference."
)


@dataclass(frozen=True)
class ForcedStep:
    """One step of the decoder.

    Args:
        input: The token that the decoder reads.
        target: The token that it should predict.
        prediction: The token that it predicts.
        p_prediction: The probability of the prediction.
        p_target: The probability of the target.
        loss: −log p(target).
    """

    input: str
    target: str
    prediction: str
    p_prediction: float
    p_target: float
    loss: float


@private_torch_state()
def teacher_forcing_report(target: str = TARGET, example: DecoderExample = DEFAULT_DECODER) -> LabReport:
    """A target sentence decoded with teacher forcing and with the decoder's own predictions.

    Args:
        target: The sentence; its words are in the vocabulary of the decoder.
        example: The weights of the decoder.

    Raises:
        UserError: If a word is not in the vocabulary or the shapes do not fit each other.
    """
    decoder, tokens = example.decoder(), example.tokens
    split_words("--target", target)  # at least one word
    words = example.ids("--target", target)
    begin, end = 0, len(tokens) - 1
    inputs, targets = torch.tensor([[[begin, *words]], [[*words, end]]], device="cpu")  # [1, steps] each
    start = decoder.start(example.encoding())
    forced, _ = decoder.teacher_forced(inputs, start)  # [1, steps, vocabulary]
    free = decoder.scheduled_sampling(inputs, start, torch.zeros_like(inputs, dtype=torch.bool))
    own_inputs = torch.cat([inputs[:, :1], free.argmax(-1)[:, :-1]], 1)

    ways = {TEACHER_FORCING: (inputs, forced), FREE_RUNNING: (own_inputs, free)}
    steps = {name: _steps(tokens, read[0], targets[0], logits[0]) for name, (read, logits) in ways.items()}
    losses = {name: sum(step.loss for step in known) / len(known) for name, known in steps.items()}
    groups = {
        f"Probabilities, {name}": [_probability_grid(name, logits[0].softmax(-1), targets[0], steps[name], tokens)]
        for name, (_, logits) in ways.items()
    }
    facts = {
        "numbers": "Regard's own" if example == DEFAULT_DECODER else "your own",
        "target": " ".join(step.target for step in steps[TEACHER_FORCING]),
    }
    facts |= {f"predictions, {name}": " ".join(step.prediction for step in known) for name, known in steps.items()}
    facts |= {f"mean loss, {name}": format_number(loss) for name, loss in losses.items()}
    data = {
        name.replace(" ", "_"): {"steps": [asdict(step) for step in known], "mean_loss": losses[name]}
        for name, known in steps.items()
    }
    sections = [_table_section(name, steps[name], losses[name]) for name in steps]
    remarks = {"The difference": _comparison(steps[TEACHER_FORCING], steps[FREE_RUNNING])}
    return steps_report("Teacher forcing and free running", LEAD, facts, groups, remarks, data, sections, key=KEY)


def _probability_grid(name: str, p: Tensor, targets: Tensor, steps: list[ForcedStep], tokens: list[str]) -> Grid:
    """The probabilities [steps, vocabulary] and the loss of each step; arrows show where the next input comes from."""
    target_cells = list(enumerate(targets.tolist()))
    predictions = list(enumerate(p.argmax(-1).tolist()))
    return Grid(
        name,
        Formula(f"probabilities, loss −log p(target); each step reads the previous {READS[name]}"),
        [[*row, step.loss] for row, step in zip(p.tolist(), steps, strict=True)],
        [step.input for step in steps],
        [*tokens, "loss"],
        ColorScale("probabilities", 1.0),
        plain_columns=1,
        row_title="input",
        outlined=target_cells,
        bold=predictions,
        arrows=(target_cells if name == TEACHER_FORCING else predictions)[:-1],
    )


def _steps(tokens: list[str], inputs: Tensor, targets: Tensor, logits: Tensor) -> list[ForcedStep]:
    """The steps of one way to run the decoder: inputs and targets [steps], logits [steps, vocabulary]."""
    log_p = logits.log_softmax(-1)
    rows = zip(inputs.tolist(), targets.tolist(), log_p.argmax(-1).tolist(), log_p, strict=True)
    return [
        ForcedStep(
            tokens[read],
            tokens[target],
            tokens[best],
            row[best].exp().item(),
            row[target].exp().item(),
            -row[target].item(),
        )
        for read, target, best, row in rows
    ]


def _table_section(name: str, steps: list[ForcedStep], mean: float) -> ReportSection:
    head = ("step", "input", "target", "prediction", "p(prediction)", "p(target)", "loss")
    rows = [
        (
            str(t),
            step.input,
            step.target,
            step.prediction,
            *map(format_number, (step.p_prediction, step.p_target, step.loss)),
        )
        for t, step in enumerate(steps, start=1)
    ]
    rows.append(("mean", "", "", "", "", "", format_number(mean)))
    return ReportSection(name.capitalize(), (), (Table(head, tuple(rows), Formula("loss = −log p(target)")),))


def _comparison(forced: list[ForcedStep], free: list[ForcedStep]) -> str:
    """Where the inputs first differ, and how many predictions are right."""
    right = [sum(step.prediction == step.target for step in steps) for steps in (forced, free)]
    counts = f"{right[0]} of {len(forced)} predictions are correct with teacher forcing, {right[1]} in free running."
    first = next((t for t, (a, b) in enumerate(zip(forced, free, strict=True), start=1) if a.input != b.input), None)
    if first is None:
        return f"{counts} The decoder predicts every input of the target itself, so both ways are the same."
    wrong = free[first - 2]
    return (
        f"{counts} At step {first - 1} the decoder predicts {wrong.prediction} in place of {wrong.target}. Teacher "
        f"forcing corrects the input of step {first}. In free running the decoder reads {wrong.prediction}, and all "
        "later steps depend on it; their targets are those of the sentence all the same."
    )
