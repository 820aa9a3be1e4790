"""The report of `regard gradients`: the gradient of the loss at source positions and weights, of one run or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from matplotlib.figure import Figure

from regard.errors import UserError
from regard.evaluation.losses import LossMetrics
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory.formatting import format_number, format_percent
from regard.laboratory.gradients import PARTS, GradientProfile, Part, gradient_profile
from regard.laboratory.lab_report import LabReport
from regard.laboratory.sentences import load_examples
from regard.laboratory.sequence_losses import Condition, measured_conditions, sequence_losses
from regard.laboratory.weight_gradients import WeightPart, weight_gradients
from regard.nn.build import initial_model
from regard.plotting.band_plot import Band, draw_bands
from regard.plotting.figures import message_figure
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.tasks import Split

MAX_ROWS = 16  # of a table
LEAD = (
    "‖∂loss/∂z_i‖: how much the loss of a sentence, −Σ log p in nats, changes with the embedding z_i of a source "
    "position. The gradient has two paths: the encoder's final state (the bottleneck), from which the decoder's "
    "initial state is computed and which is the context of every step with last attention, and attention to the "
    "encoder states."
)
CONDITIONS: Mapping[Condition, str] = {
    "reference": "own source, reference prefix",
    "other_source": "other source, reference prefix",
    "random_prefix": "own source, random prefix",
    "neither": "other source, random prefix",
    "free_running": "own source, own outputs",
}
LABELS: Mapping[Part, str] = {
    "total": "total gradient",
    "bottleneck": "through the bottleneck",
    "attention": "through attention",
}


@dataclass(frozen=True)
class RunGradients:
    """The measurements of one run.

    Args:
        name: The name of the run in tables.
        translator: The run's translator.
        profile: Gradients at the source.
        weights: Gradients at the weights.
        losses: Losses given the right sequences, and given others.
    """

    name: str
    translator: Translator
    profile: GradientProfile
    weights: Sequence[WeightPart]
    losses: Mapping[Condition, LossMetrics]

    @property
    def attention_kind(self) -> str:
        return self.translator.experiment.model.attention.label


def gradient_report(
    translators: Sequence[Translator],
    split: Split,
    limit: int | None,
    *,
    from_end: bool = False,
    untrained: bool = False,
    expect: ProgressCallback = no_progress,
    advance: ProgressCallback = no_progress,
) -> LabReport:
    """The gradient at each source position and each part of the weights, and the loss given other sequences.

    Args:
        translators: One translator per run.
        split: The split of each run's own data whose sentences are used.
        limit: The maximum number of sentences of each run; None for all.
        from_end: Count positions from the end of the source.
        untrained: Use the weights before training, drawn from the run's seed.
        expect: Called once with the total number of passes over single sentences.
        advance: Called with the number of passes done.
    """
    names = run_names(translators)
    sentences = [load_examples(translator, split, limit)[1] for translator in translators]
    expect(sum((2 + len(measured_conditions(len(examples)))) * len(examples) for examples in sentences))
    runs = []
    for name, translator, examples in zip(names, translators, sentences, strict=True):
        initial = initial_model(translator.experiment, *translator.codec.sizes).to(translator.device)
        model = initial if untrained else translator.model
        profile = gradient_profile(model, examples, advance)
        weights = weight_gradients(model, initial, examples, advance)
        runs.append(RunGradients(name, translator, profile, weights, sequence_losses(model, examples, advance)))
    counted = "from the end of the source" if from_end else "from the start of the source"
    facts = {
        "sentences": f"{split} split, with teacher forcing",
        "weights": "before training" if untrained else "trained",
        "positions": f"counted {counted}, <end> included; only those that a tenth of the sentences have",
    }
    sections = (
        _summary_section(runs),
        _position_section(runs, from_end, counted),
        _weight_section(runs),
        _sequence_section(runs),
    )
    page = ReportPage("Gradients of the loss", LEAD, facts, sections)
    settings = {"split": split, "weights": "untrained" if untrained else "trained", "from_end": from_end}
    return LabReport(page, settings | {"runs": [_gradient_data(run, from_end) for run in runs]})


def run_names(translators: Sequence[Translator]) -> list[str]:
    """The name of each run in tables: that of its directory, or the whole path if two have the same.

    Args:
        translators: One translator per run.

    Raises:
        UserError: If a run is given twice.
    """
    paths = [translator.runs[0].path for translator in translators]
    resolved = [path.resolve() for path in paths]
    for path, own in zip(paths, resolved, strict=True):
        if resolved.count(own) > 1:
            raise UserError(f"{path}: this run is given twice; give each run once")
    names = [own.name for own in resolved]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def panel_titles(runs: Sequence[RunGradients]) -> dict[str, str]:
    """The title of each run's panel: its attention mechanism if that identifies the run, otherwise its name.

    Args:
        runs: The measured runs.
    """
    kinds = {
        run.name: "no attention" if run.attention_kind == "none" else f"{run.attention_kind} attention" for run in runs
    }
    return kinds if len(set(kinds.values())) == len(runs) else {run.name: run.name for run in runs}


def _summary_section(runs: Sequence[RunGradients]) -> ReportSection:
    head = ("", "attention", "sentences", "loss", "per token", "first", "middle", "last", "first/last")
    rows = []
    for run in runs:
        profile = run.profile
        totals = (norms["total"] for norms in (profile.at_position(0), profile.at_middle(), profile.at_position(-1)))
        loss, ratio = sum(profile.losses), profile.first_last_ratio()
        rows.append(
            (
                run.name,
                run.attention_kind,
                f"{len(profile.losses):,}",
                format_number(loss / len(profile.losses)),
                format_number(loss / profile.tokens),
                *map(format_number, totals),
                "–" if ratio is None else format_number(ratio),
            )
        )
    caption = (
        "Loss per sentence and per token; ‖g_i‖ at the first, middle and last source token (<end>), and the ratio of "
        "first to last in the median sentence"
    )
    parts = tuple((run.name, *(format_percent(run.profile.share(part)) for part in PARTS[1:])) for run in runs)
    text = (
        "A model with a smaller loss usually has smaller gradients: compare positions and paths within a run, and "
        "losses before sizes.",
        "Shares are Σ‖g_i^part‖ / Σ‖g_i‖. The parts are vectors that may point in opposite directions, so shares need "
        "not add up to 100 %.",
    )
    shares = Table(("", "through the bottleneck", "through attention"), parts, "Share of the gradient by path")
    return ReportSection("Summary", text, (Table(head, tuple(rows), caption), shares))


def _position_section(runs: Sequence[RunGradients], from_end: bool, counted: str) -> ReportSection:
    ends = "; ".join(
        f"{run.name}: {format_number(run.profile.at_position(0)['total'])} at the first token, "
        f"{format_number(run.profile.at_position(-1)['total'])} at the last"
        for run in runs
    )
    alt = f"The norm of the gradient at each source position. {ends}."
    caption = "; ".join(f"{title}: {name}" for name, title in panel_titles(runs).items() if title != name)
    picture = Picture(_draw_gradients(runs, from_end, counted), alt, caption)
    tables = (_position_table(run, from_end, counted) for run in runs)
    return ReportSection("By position", (), (picture, *tables))


def _position_table(run: RunGradients, from_end: bool, counted: str) -> Table:
    profile = run.profile
    shown = profile.common_positions
    every = ceil(len(shown) / MAX_ROWS)
    rows = tuple(
        (
            str(position + 1),
            f"{profile.sentences_with(position):,}",
            *(format_number(norm) for norm in profile.at_position(_index(position, from_end)).values()),
        )
        for position in shown[::every]
    )
    return Table(("position", "sentences", "‖g‖", "bottleneck", "attention"), rows, f"{run.name}, {counted}")


def _weight_section(runs: Sequence[RunGradients]) -> ReportSection:
    text = (
        "L is the loss per token, which training minimizes; ∂L/∂W is a sum over all steps at which a weight is used. "
        "W_0 are the weights before training.",
    )
    head = ("weights", "tensors", "elements", "‖W‖", "‖W − W_0‖", "‖∂L/∂W‖")
    tables = []
    for run in runs:
        rows = (
            (w.part, str(w.tensors), f"{w.elements:,}", *map(format_number, (w.norm, w.change, w.gradient)))
            for w in run.weights
        )
        tables.append(Table(head, tuple(rows), run.name))
    return ReportSection("By part of the weights", text, tuple(tables))


def _sequence_section(runs: Sequence[RunGradients]) -> ReportSection:
    text = (
        "How well the same reference tokens are predicted if the decoder gets the source of another sentence of the "
        "same or a similar length, if it reads outputs of all sentences in random order in place of the reference "
        "prefix (a random prefix), and if it reads its own outputs, as at inference.",
    )
    head = ("the decoder reads", "loss per token", "token accuracy", "exact match")
    tables = []
    for run in runs:
        rows = (
            (CONDITIONS[condition], format_number(m.loss), *map(format_percent, (m.token_accuracy, m.exact_match)))
            for condition, m in run.losses.items()
        )
        tables.append(Table(head, tuple(rows), run.name))
    return ReportSection("Other sources and prefixes", text, tuple(tables))


def _index(position: int, from_end: bool) -> int:
    return -1 - position if from_end else position


def _draw_gradients(runs: Sequence[RunGradients], from_end: bool, counted: str) -> Figure:
    bands, titles = [], panel_titles(runs)
    for run in runs:
        positions = run.profile.common_positions
        norms = [run.profile.at_position(_index(position, from_end)) for position in positions]
        x = tuple(position + 1 for position in positions)
        bands += [Band(LABELS[part], x, (tuple(norm[part] for norm in norms),), titles[run.name]) for part in PARTS]
    if not any(value for band in bands for values in band.runs for value in values):
        return message_figure("no gradient reaches the source", None)
    return draw_bands(bands, f"source position, {counted}", "norm of the gradient", log_y=True)


def _gradient_data(run: RunGradients, from_end: bool) -> dict[str, Any]:
    """All positions, those of few sentences included."""
    profile = run.profile
    return {
        "run": str(run.translator.runs[0].path),
        "attention": run.attention_kind,
        "sentences": len(profile.losses),
        "loss": sum(profile.losses) / len(profile.losses),
        "loss_per_token": sum(profile.losses) / profile.tokens,
        "shares": {part: profile.share(part) for part in PARTS[1:]},
        "first": profile.at_position(0),
        "middle": profile.at_middle(),
        "last": profile.at_position(-1),
        "first_last_ratio": profile.first_last_ratio(),
        "positions": [
            {
                "position": position + 1,
                "sentences": profile.sentences_with(position),
                **profile.at_position(_index(position, from_end)),
            }
            for position in profile.positions
        ],
        "weights": [asdict(part) for part in run.weights],
        "conditions": {condition: asdict(metrics) for condition, metrics in run.losses.items()},
    }
