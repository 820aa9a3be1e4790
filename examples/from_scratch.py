"""Builds a model from `regard.nn`, trains it with a plain PyTorch loop, and draws where it attends.

The task is to reverse a sequence of digits. Nothing of Regard's trainer, settings or run directories is used.

    python examples/from_scratch.py attention.png
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard import nn
from regard.plotting.attention_map import draw_attention_map
from regard.plotting.figures import save_figure

PADDING, START, END = 10, 11, 12  # after the ten digits
TOKENS = 13
LONGEST = 8
STEPS, BATCH = 300, 32


def make_batch(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random digits and the end as the source; the start, the digits in reverse order and the end as the target.

    Returns:
        source: [batch, LONGEST + 1].
        target: [batch, LONGEST + 2].
        lengths: The number of digits, [batch].
    """
    source = torch.full((size, LONGEST + 1), PADDING)
    target = torch.full((size, LONGEST + 2), PADDING)
    lengths = torch.randint(3, LONGEST + 1, (size,))
    for row, length in enumerate(lengths.tolist()):
        digits = torch.randint(10, (length,))
        source[row, : length + 1] = torch.cat([digits, torch.tensor([END])])
        target[row, : length + 2] = torch.cat([torch.tensor([START]), digits.flip(0), torch.tensor([END])])
    return source, target, lengths


def build_model() -> nn.Seq2Seq:
    """A bidirectional GRU, and a GRU with additive attention to its states."""
    encoder = nn.RecurrentEncoder(nn.Embedding(TOKENS, 32), nn.GRU(32, 48, bidirectional=True))
    attention = nn.AdditiveAttention(query_size=64, memory_size=encoder.size, key_size=48)
    decoder = nn.AttendBeforeDecoder(
        nn.Embedding(TOKENS, 32), attention, cell=nn.GRU, start=nn.TanhStart, readout=nn.DirectReadout
    )
    return nn.Seq2Seq(encoder, decoder)


def train(model: nn.Seq2Seq) -> None:
    """Teacher forcing: at each step the decoder reads the previous token of the target and predicts the next."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.006)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    for step in range(1, STEPS + 1):
        source, target, _ = make_batch(BATCH)
        inputs, outputs = target[:, :-1], target[:, 1:]
        valid = outputs != PADDING
        logits = model(source, source != PADDING, inputs, valid)  # [valid tokens, TOKENS]
        loss = cross_entropy(logits, outputs[valid])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


@torch.no_grad()
def greedy_search(model: nn.Seq2Seq, source: Tensor) -> tuple[Tensor, Tensor]:
    """The most likely token at each step.

    Returns:
        tokens: [batch, LONGEST + 1].
        weights: The attention weights of each step, [batch, LONGEST + 1, LONGEST + 1].
    """
    model.eval()
    state = model.start(source, source != PADDING)
    token = torch.full((len(source),), START)
    tokens, weights = [], []
    for _ in range(LONGEST + 1):
        logits, state = model.decoder.step(token, state)
        token = logits.argmax(-1)
        tokens.append(token)
        weights.append(state.weights)
    return torch.stack(tokens, 1), torch.stack(weights, 1)


def main(path: str) -> None:
    torch.manual_seed(1)
    model = build_model()
    train(model)
    source, target, lengths = make_batch(500)
    tokens, weights = greedy_search(model, source)
    wanted = target[:, 1:]
    correct = ((tokens == wanted) | (wanted == PADDING)).all(1)
    print(f"accuracy on {len(source)} new sequences: {correct.double().mean().item():.1%}")
    length = int(lengths[0]) + 1
    labels = [*map(str, range(10)), "", "<start>", "<end>"]
    figure = draw_attention_map(
        weights[0, :length, :length],
        [labels[token] for token in source[0, :length]],
        [labels[token] for token in tokens[0, :length]],
        title="Attention while reversing digits",
    )
    save_figure(figure, path)
    print(f"{path}: the attention map of one of them")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "attention.png")
