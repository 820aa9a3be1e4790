"""The objective of a training step: cross-entropy and, if chosen, the consistency of two predictions of each token.

    CE(P) = −(1/N) Σ log P(y_t | y_<t, x)        KL(P ‖ Q) = (1/N) Σ Σ_w P(w) (log P(w) − log Q(w))

over the N target tokens of a batch and the words w of the vocabulary. Two predictions P and Q come from one forward
pass over all rows twice. `regard.config.kinds` has the names of the objectives in an experiment.

Shapes: rows [batch, …], logits and log-probabilities [tokens, vocabulary], references [tokens].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, nll_loss

from regard.config.kinds import CONSISTENCIES, ConsistencySection
from regard.nn import Seq2Seq
from regard.training.r_drop_loss import RDropLoss


class ModelInputs(NamedTuple):
    """The arguments of `regard.nn.Seq2Seq`.

    Args:
        source: [batch, positions], or [batch, positions, pixels] of pictures.
        source_valid: [batch, positions].
        inputs: [batch, steps].
        valid: The rows and the steps of the target tokens, [tokens] each.
        teacher_forcing_mask: [batch, steps], or None.
    """

    source: Tensor
    source_valid: Tensor
    inputs: Tensor
    valid: tuple[Tensor, ...]
    teacher_forcing_mask: Tensor | None

    def twice(self) -> ModelInputs:
        """All rows, followed by the same rows again: logits of the same tokens are `logits.chunk(2)`."""
        source, source_valid, inputs, (rows, steps), mask = self
        return ModelInputs(
            torch.cat([source, source]),
            torch.cat([source_valid, source_valid]),
            torch.cat([inputs, inputs]),
            (torch.cat([rows, rows + len(inputs)]), torch.cat([steps, steps])),
            None if mask is None else torch.cat([mask, mask]),
        )


Forward = Callable[[ModelInputs], Tensor]


@dataclass(frozen=True)
class Losses:
    """The losses of a batch, means over its target tokens.

    Args:
        objective: What is minimized.
        cross_entropy: That of the references.
        consistency: By how much two predictions differ; None if there is one.
    """

    objective: Tensor
    cross_entropy: Tensor
    consistency: Tensor | None = None

    def measured(self) -> Tensor:
        """What is reported: cross-entropy and, if there is one, consistency, [1] or [2]."""
        parts = [self.cross_entropy] if self.consistency is None else [self.cross_entropy, self.consistency]
        return torch.stack(parts).detach()


class Objective(ABC):
    """What a training step minimizes.

    Args:
        label_smoothing: ε, the probability mass that is spread over all target tokens.

    Attributes:
        Section: The settings class.
        is_consistency: Whether its losses have a `consistency`.
    """

    Section: ClassVar[type[ConsistencySection]] = ConsistencySection
    is_consistency: ClassVar[bool] = True

    def __init__(self, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    @abstractmethod
    def __call__(self, model: Seq2Seq, forward: Forward, inputs: ModelInputs, references: Tensor) -> Losses:
        """The losses of a batch.

        Args:
            model: The model in training mode.
            forward: Returns the logits of the model, perhaps in a lower precision.
            inputs: What the model reads.
            references: The target tokens, [tokens].
        """

    def cross_entropy(self, log_probs: Tensor, references: Tensor) -> Tensor:
        """(1 − ε) CE(P) + ε CE(P of the uniform distribution).

        Args:
            log_probs: log P, [tokens, vocabulary].
            references: y, [tokens].
        """
        loss = nll_loss(log_probs, references)
        if self.label_smoothing:
            loss = (1 - self.label_smoothing) * loss - self.label_smoothing * log_probs.mean()
        return loss


class CrossEntropy(Objective):
    """L = CE(P).

    Args:
        label_smoothing: ε.
    """

    is_consistency = False

    def __call__(self, model: Seq2Seq, forward: Forward, inputs: ModelInputs, references: Tensor) -> Losses:
        logits = forward(inputs).float()
        loss = cross_entropy(logits, references, label_smoothing=self.label_smoothing)
        return Losses(loss, loss)


class RDropSection(ConsistencySection):
    """Settings of R-Drop.

    Attributes:
        weight: α.
    """

    needs_dropout = True
    weight: float = Field(default=3.0, gt=0)


class RDrop(Objective):
    """L = ½ [CE(P) + CE(Q)] + α/2 · ½ [KL(P ‖ Q) + KL(Q ‖ P)], where P and Q differ by dropout.

    It is half the loss of Liang, Wu et al. (2021), so that its gradient is about as large as that of the cross-entropy.

    Args:
        label_smoothing: ε.
        weight: α.
    """

    Section = RDropSection

    def __init__(self, label_smoothing: float = 0.0, *, weight: float = 3.0) -> None:
        super().__init__(label_smoothing)
        self.weight = weight

    def __call__(self, model: Seq2Seq, forward: Forward, inputs: ModelInputs, references: Tensor) -> Losses:
        return Losses(*RDropLoss.apply(forward(inputs.twice()), references, self.label_smoothing, self.weight))


class SimCutSection(ConsistencySection):
    """Settings of SimCut.

    Attributes:
        weight: α.
        cutoff: Probability that a token is cut.
    """

    weight: float = Field(default=3.0, gt=0)
    cutoff: float = Field(default=0.05, gt=0, lt=1)


class SimCut(Objective):
    """L = CE(P) + α KL(P ‖ Q), where Q is the prediction from a source and a target with some embeddings set to 0.

    As in the code of Gao et al. (2022), gradients flow through both P and Q.

    Args:
        label_smoothing: ε.
        weight: α.
        cutoff: Probability that a token is cut.
    """

    Section = SimCutSection

    def __init__(self, label_smoothing: float = 0.0, *, weight: float = 3.0, cutoff: float = 0.05) -> None:
        super().__init__(label_smoothing)
        self.weight = weight
        self.cutoff = cutoff

    def __call__(self, model: Seq2Seq, forward: Forward, inputs: ModelInputs, references: Tensor) -> Losses:
        with token_cutoff(model, self.cutoff):
            logits = forward(inputs.twice())
        whole, cut = log_softmax(logits.float(), -1).chunk(2)
        loss = self.cross_entropy(whole, references)
        consistency = (whole.exp() * (whole - cut)).sum(-1).mean()
        return Losses(loss + self.weight * consistency, loss, consistency)


@contextmanager
def token_cutoff(model: Seq2Seq, probability: float) -> Iterator[None]:
    """Within this context, embeddings in the second half of the rows are 0 with a probability, before their positions.

    Args:
        model: The model.
        probability: p.
    """

    def cut(module: nn.Module, arguments: Any, vectors: Tensor) -> Tensor:
        whole, others = vectors.chunk(2)
        is_cut = torch.rand(others.shape[:-1], device=others.device) < probability
        return torch.cat([whole, others.masked_fill(is_cut.unsqueeze(-1), 0.0)])

    with ExitStack() as stack:
        for table in {model.encoder.embedding.tokens, model.decoder.embedding.tokens}:  # one if they are shared
            stack.callback(table.register_forward_hook(cut).remove)
        yield


def build_objective(section: ConsistencySection, label_smoothing: float) -> Objective:
    """The objective that the settings describe.

    Args:
        section: The section `training.consistency`.
        label_smoothing: ε.
    """
    objective: Objective = CONSISTENCIES[section.kind](label_smoothing, **section.options())
    return objective
