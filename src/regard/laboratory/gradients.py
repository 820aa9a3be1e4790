"""How the gradient of the loss reaches the source: through the bottleneck, and through attention.

                  ┌─ last ─── bottleneck ──┐
    z_i → encoder ┤                        ├ decoder → loss
                  └─ states ─ attention ───┘

A decoder learns of the source by two doors only: the encoder's last state, from which it starts, and all its states,
to which it attends. So the gradient at z_i, the vector of source position i, is a sum of two:

    g_i = ∂loss/∂z_i = g_i^bottleneck + g_i^attention

Where one of the doors is closed (no attention; a Transformer, or a decoder that starts from zeros), its part is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any, Literal

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.data import Batch, Example, collate
from regard.errors import UserError
from regard.inference.translator import ProgressCallback, Translator, no_progress
from regard.laboratory import sentences
from regard.laboratory.embeddings import encode, precise, vectors_of
from regard.laboratory.formatting import format_number, format_percent
from regard.laboratory.lab_report import LabReport
from regard.nn import Encoding, Seq2Seq
from regard.nn.build import initial_model
from regard.plotting.comparison import Band, draw_bands
from regard.plotting.figures import message_figure
from regard.reports.report_page import Picture, ReportPage, ReportSection, Table
from regard.tasks import Split

Part = Literal["whole", "bottleneck", "attention"]
PARTS: tuple[Part, ...] = ("whole", "bottleneck", "attention")
AT_ONCE = 32  # sentences
RARE = 10  # a position that not even one of so many sentences has is not shown
MOST_ROWS = 16  # of a table, so that it fits a screen


@dataclass(frozen=True)
class Gradients:
    """Of a batch. Padding has none."""

    loss: Tensor  # of each sentence: [batch]
    bottleneck: Tensor  # [batch, positions, size]
    attention: Tensor  # [batch, positions, size]

    @property
    def norms(self) -> Tensor:
        """‖g_i‖ of the whole and of both parts: [batch, parts, positions]."""
        return torch.stack([self.bottleneck + self.attention, self.bottleneck, self.attention], 1).norm(dim=-1)


def gradients_of(model: Seq2Seq, batch: Batch) -> Gradients:
    """The gradient of each sentence's loss −Σ_t log p(y_t | y_<t, x), in nats, at its own source positions.

    The graph is cut at both doors: what arrives at each is pushed back through the encoder on its own.
    """
    vectors = vectors_of(model.encoder, batch.source).requires_grad_()
    encoding = encode(model.encoder, batch.source, batch.source_valid, vectors)
    states = encoding.states.detach().requires_grad_()
    last = tuple(part.detach().requires_grad_() for part in encoding.final_state)
    losses = forced_losses(model, batch, Encoding(states, encoding.valid, last))
    at_states, *at_last = torch.autograd.grad(losses.sum(), (states, *last), materialize_grads=True)
    (attention,) = torch.autograd.grad(encoding.states, vectors, at_states, retain_graph=True)
    (bottleneck,) = torch.autograd.grad(encoding.final_state, vectors, at_last)
    return Gradients(losses.detach(), bottleneck, attention)


def forced_losses(model: Seq2Seq, batch: Batch, encoding: Encoding) -> Tensor:
    """−Σ_t log p(y_t | y_<t, x) of each sentence, reading the true target: [batch]."""
    logits, _ = model.decoder.teacher_forced(batch.inputs, model.decoder.start(encoding), batch.valid)
    surprise = cross_entropy(logits, batch.outputs[batch.valid], reduction="none")
    return torch.stack([row.sum() for row in surprise.split(batch.valid.sum(1).tolist())])


@dataclass(frozen=True)
class GradientProfile:
    """What was measured of one run."""

    name: str
    translator: Translator
    tokens: int  # in all targets, their ends included
    losses: list[float]  # of each sentence
    norms: list[Tensor]  # of each sentence: [parts, positions]

    def at(self, place: int) -> dict[Part, float]:
        """Means over the sentences that have this position; from the end, −1 is the last."""
        have = [norms[:, place] for norms in self.norms if -norms.shape[1] <= place < norms.shape[1]]
        return self._named(torch.stack(have).mean(0))

    def in_the_middle(self) -> dict[Part, float]:
        return self._named(torch.stack([norms[:, norms.shape[1] // 2] for norms in self.norms]).mean(0))

    def first_to_last(self) -> float | None:
        """‖g_1‖ / ‖g_n‖ in the median sentence; in a mean, the shortest would hide what becomes of the others."""
        ratios = [float(whole[0] / whole[-1]) for whole, *_ in self.norms if whole[-1]]
        return median(ratios) if ratios else None

    def share(self, part: Part) -> float | None:
        """Σ ‖g_i^part‖ / Σ ‖g_i‖ over all positions of all sentences."""
        total = self._named(torch.cat(self.norms, 1).sum(1))
        return total[part] / total["whole"] if total["whole"] else None

    def having(self, place: int) -> int:
        """How many sentences have this position, counted from 0."""
        return sum(norms.shape[1] > place for norms in self.norms)

    @property
    def places(self) -> range:
        """All positions, counted from 0."""
        return range(max(norms.shape[1] for norms in self.norms))

    @property
    def common_places(self) -> list[int]:
        """Those that a tenth of the sentences have: the mean of a few would say little."""
        return [place for place in self.places if RARE * self.having(place) >= len(self.norms)]

    @property
    def kind(self) -> str:
        return self.translator.experiment.model.attention.kind

    @staticmethod
    def _named(norms: Tensor) -> dict[Part, float]:
        return dict(zip(PARTS, norms.tolist(), strict=True))


def gradient_profile(
    model: Seq2Seq, examples: Sequence[Example], advance: ProgressCallback
) -> tuple[list[float], list[Tensor]]:
    """The loss and the norms [parts, positions] of each example, the shortest first."""
    model = precise(model)
    losses: list[float] = []
    norms: list[Tensor] = []
    ordered = sorted(examples, key=lambda example: len(example.source))
    for begin in range(0, len(ordered), AT_ONCE):
        some = ordered[begin : begin + AT_ONCE]
        found = gradients_of(model, collate(some))
        losses += found.loss.tolist()
        norms += [row[:, : len(e.source)] for row, e in zip(found.norms, some, strict=True)]
        advance(len(some))
    return losses, norms


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
    """The gradient at each source position, averaged over the first `limit` sentences of each run's own split."""
    names, runs = names_of(translators), []
    read = [sentences.read(translator, split, limit)[1] for translator in translators]
    expect(sum(map(len, read)))
    for name, translator, examples in zip(names, translators, read, strict=True):
        model = initial_model(translator.experiment, *translator.codec.sizes) if untrained else translator.model
        tokens = sum(len(example.target) - 1 for example in examples)
        runs.append(GradientProfile(name, translator, tokens, *gradient_profile(model, examples, advance)))
    counted = "from the source's end" if from_end else "from the source's start"
    facts = {
        "sentences": f"of the {split} split, the true target given to the decoder",
        "weights": "as they were before training" if untrained else "trained",
        "positions": f"counted {counted}, its <end> included; where a tenth of the sentences have one",
    }
    sections = (_summary(runs), _by_position(runs, from_end, counted))
    page = ReportPage("Gradients at the source", LEAD, facts, sections)
    about = {"split": split, "weights": "untrained" if untrained else "trained", "from_end": from_end}
    return LabReport(page, about | {"runs": [_data(run, from_end) for run in runs]})


LEAD = (
    "‖∂loss/∂z_i‖: how much the loss of a sentence, −Σ log p in nats, changes with the vector z_i of a source "
    "position. The gradient comes by two doors, the decoder's first state (the bottleneck) and attention."
)


def names_of(translators: Sequence[Translator]) -> list[str]:
    """What to call each run: its directory's name, or the whole path where two have the same."""
    paths = [translator.runs[0].path for translator in translators]
    places = [path.resolve() for path in paths]
    for path, place in zip(paths, places, strict=True):
        if places.count(place) > 1:
            raise UserError(f"{path}: this run is named twice; name each run once")
    names = [place.name for place in places]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def titles_of(runs: Sequence[GradientProfile]) -> dict[str, str]:
    """What stands above each run's panel: what it attends by, where that tells the runs apart, else its name."""
    kinds = {run.name: "no attention" if run.kind == "none" else f"{run.kind} attention" for run in runs}
    return kinds if len(set(kinds.values())) == len(runs) else {run.name: run.name for run in runs}


def _summary(runs: Sequence[GradientProfile]) -> ReportSection:
    head = ("", "attention", "sentences", "loss", "a token", "first", "middle", "last", "first : last")
    rows = []
    for run in runs:
        wholes = (where["whole"] for where in (run.at(0), run.in_the_middle(), run.at(-1)))
        loss, ratio = sum(run.losses), run.first_to_last()
        rows.append(
            (
                run.name,
                run.kind,
                f"{len(run.losses):,}",
                format_number(loss / len(run.losses)),
                format_number(loss / run.tokens),
                *map(format_number, wholes),
                "–" if ratio is None else format_number(ratio),
            )
        )
    caption = (
        "The loss of a sentence and of a token; ‖g_i‖ at a source's first, middle and last token (its <end>), and how "
        "many times as large it is at the first as at the last, in the median sentence"
    )
    parts = tuple((run.name, *(format_percent(run.share(part)) for part in PARTS[1:])) for run in runs)
    text = (
        "The surer a model, the smaller its loss and with it all gradients: compare positions and doors, and losses "
        "before sizes.",
        "Shares are Σ‖g_i^part‖ / Σ‖g_i‖. They are of vectors, which may point against each other, and so need not add "
        "up to 100 %.",
    )
    shares = Table(("", "through the bottleneck", "through attention"), parts, "Shares of the gradient by door")
    return ReportSection("Summary", text, (Table(head, tuple(rows), caption), shares))


def _by_position(runs: Sequence[GradientProfile], from_end: bool, counted: str) -> ReportSection:
    ends = "; ".join(
        f"{run.name}: {format_number(run.at(0)['whole'])} at the first token, "
        f"{format_number(run.at(-1)['whole'])} at the last"
        for run in runs
    )
    alt = f"The norm of the gradient at each source position. {ends}."
    caption = "; ".join(f"{title}: {name}" for name, title in titles_of(runs).items() if title != name)
    picture = Picture(_draw(runs, from_end, counted), alt, caption)
    return ReportSection("Position by position", (), (picture, *(_table(run, from_end, counted) for run in runs)))


def _table(run: GradientProfile, from_end: bool, counted: str) -> Table:
    shown = run.common_places
    each = ceil(len(shown) / MOST_ROWS)
    rows = tuple(
        (
            str(place + 1),
            f"{run.having(place):,}",
            *(format_number(norm) for norm in run.at(_index(place, from_end)).values()),
        )
        for place in shown[::each]
    )
    return Table(("position", "sentences", "‖g‖", "bottleneck", "attention"), rows, f"{run.name}, {counted}")


def _index(place: int, from_end: bool) -> int:
    return -1 - place if from_end else place


def _draw(runs: Sequence[GradientProfile], from_end: bool, counted: str) -> Figure:
    bands, titles = [], titles_of(runs)
    for run in runs:
        norms = [run.at(_index(place, from_end)) for place in run.common_places]
        panel = titles[run.name]
        x = tuple(place + 1 for place in run.common_places)
        bands += [Band(LABELS[part], x, (tuple(norm[part] for norm in norms),), panel) for part in PARTS]
    if not any(value for band in bands for values in band.runs for value in values):
        return message_figure("no gradient reaches the source", None)
    return draw_bands(bands, f"source position, {counted}", "norm of the gradient", log_y=True)


LABELS: Mapping[Part, str] = {
    "whole": "whole gradient",
    "bottleneck": "through the bottleneck",
    "attention": "through attention",
}


def _data(run: GradientProfile, from_end: bool) -> dict[str, Any]:
    """All positions, those that few sentences have as well."""
    return {
        "run": str(run.translator.runs[0].path),
        "attention": run.kind,
        "sentences": len(run.losses),
        "loss": sum(run.losses) / len(run.losses),
        "loss_per_token": sum(run.losses) / run.tokens,
        "shares": {part: run.share(part) for part in PARTS[1:]},
        "first": run.at(0),
        "middle": run.in_the_middle(),
        "last": run.at(-1),
        "first_to_last": run.first_to_last(),
        "positions": [
            {"position": place + 1, "sentences": run.having(place), **run.at(_index(place, from_end))}
            for place in run.places
        ],
    }
