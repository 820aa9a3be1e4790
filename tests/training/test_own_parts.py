"""Every family of kinds, each with a class of a user's file: trained, stopped, continued, loaded in another process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.config import kinds, plugins
from regard.config.families import Kinds, import_object, plugin_names
from regard.config.schema import Experiment
from regard.runs import MODEL, Run

PARTS = '''
from dataclasses import dataclass
from pydantic import Field
from regard import nn
from regard.config.kinds import LearningRateSection, TokenizerSection
from regard.nn.recurrent_start import TanhStart
from regard.nn.transformer import SelfAttentionEncoder, TransformerDecoder
from regard.tasks.copy import CopySection, CopyTask
from regard.text import Tokenizer
from regard.training.learning_rates import LearningRate
from regard.training.objective import RDrop
from regard.training.teacher_forcing import TeacherForcing

class Attention(nn.ScaledDotAttention): pass
class Cell(nn.GRU): pass
class Wiring(nn.AttendBeforeDecoder): pass
class Start(TanhStart): pass
class Readout(nn.DirectReadout): pass
class Places(nn.LearnedPositions): pass
class Encoder(SelfAttentionEncoder): pass
class Decoder(TransformerDecoder): pass
class Task(CopyTask): pass
class Consistency(RDrop): pass

class RateSection(LearningRateSection):
    half_life: float = Field(100.0, gt=0)

@dataclass(frozen=True)
class Rate(LearningRate):
    Section = RateSection
    half_life: float = 100.0
    def multiplier(self, now):
        return 0.5 ** (now.step / self.half_life)

class Forcing(TeacherForcing):
    def __init__(self, ratio):
        self.ratio = ratio
    def __call__(self, epoch):
        return self.ratio

class Alphabet(Tokenizer):
    """Letters, of which the most frequent one is written in capitals."""
    has_model = True
    def __init__(self, frequent):
        self.frequent = frequent
    @classmethod
    def from_texts(cls, texts, settings):
        text = "".join(texts)
        return cls(max(sorted(set(text)), key=text.count))
    @classmethod
    def from_model(cls, model, settings):
        return cls(model.decode())
    @property
    def model(self):
        return self.frequent.encode()
    def tokenize(self, text):
        return [c.upper() if c == self.frequent else c for c in text]
    def detokenize(self, tokens):
        return "".join(self.frequent if token == self.frequent.upper() else token for token in tokens)
'''
RECURRENT = """
data: {task: ./parts.py:Task, alphabet: abcd, max_length: 5, train: 90, validation: 20, test: 20}
model:
  encoder: {cell: ./parts.py:Cell, size: 6, embedding: 5, positions: {kind: ./parts.py:Places, longest: 9}}
  decoder:
    cell: ./parts.py:Cell
    wiring: ./parts.py:Wiring
    start: ./parts.py:Start
    readout: ./parts.py:Readout
    size: 7
    embedding: 5
  attention: {kind: ./parts.py:Attention, key_size: 3}
  dropout: 0.1
training:
  epochs: 2
  batch_tokens: 100
  consistency: {kind: ./parts.py:Consistency, weight: 2.0}
  rate: {kind: ./parts.py:Rate, half_life: 20}
  teacher_forcing: {kind: ./parts.py:Forcing, ratio: 0.6}
"""
TRANSFORMER = """
data: {task: files, train: text, validation: text, text: {unit: ./parts.py:Alphabet}}
model:
  encoder: {kind: ./parts.py:Encoder, size: 6, heads: 2, inner_size: 7, embedding: 6, positions: {kind: sine}}
  decoder: {kind: ./parts.py:Decoder, size: 6, heads: 3, inner_size: 7, embedding: 6, positions: {kind: sine}}
training: {epochs: 2, batch_tokens: 60}
"""
EXPERIMENTS = {"recurrent": RECURRENT, "transformer": TRANSFORMER}


class StopAfter(regard.Callback):
    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_step_end(self, trainer: Any, loss: float) -> None:
        self.steps -= 1

    def should_stop(self) -> bool:
        return self.steps <= 0


@pytest.fixture
def folder(tmp_path: Path, fresh_plugins: None) -> Path:
    (tmp_path / "parts.py").write_text(PARTS)
    lines = [f"{a}{b}{c} \n" for a in "abc" for b in "abb" for c in "bcd"]
    for language in ("de", "en"):
        (tmp_path / f"text.{language}").write_text("".join(lines))
    for name, content in EXPERIMENTS.items():
        (tmp_path / f"{name}.yaml").write_text(content)
    return tmp_path


def weights_of(path: Path) -> bytes:
    return (path / MODEL).read_bytes()


def own_parts(names: Sequence[str]) -> set[str]:
    return {name.rpartition(":")[2] for name in names}


def test_the_experiments_use_every_family_that_can_be_extended(folder: Path):
    families = {name: table for name, table in vars(kinds).items() if isinstance(table, Kinds) and table._base}
    used = {name for each in EXPERIMENTS for name in plugin_names(Experiment.load(folder / f"{each}.yaml"))}
    for family, table in families.items():
        base = import_object(table._base) if isinstance(table._base, str) else table._base
        assert any(issubclass(plugins.load_object(name), base) for name in used), family


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_with_own_parts_continues_and_loads(name: str, folder: Path):
    file = folder / f"{name}.yaml"
    whole = regard.train(file, out=folder / "whole", progress=False)
    for steps in (1, 2, 1000):
        parted = regard.train(file, out=folder / "parted", callbacks=[StopAfter(steps)], progress=False)
    assert whole.progress.finished
    assert parted.progress.step == whole.progress.step > 3
    assert weights_of(parted.path) == weights_of(whole.path), "bit-identical"
    assert own_parts(list(whole.code)) == own_parts(list(plugin_names(whole.experiment)))
    (translation,) = regard.load(whole).translate(["abcb"])
    program = (
        "import sys, regard; (t,) = regard.load(sys.argv[1], trust_code=True).translate(['abcb']); "
        "print(repr(t.text), repr(t.score))"
    )
    command = [sys.executable, "-c", program, str(whole.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{translation.text!r} {translation.score!r}"


def test_a_tokenizer_is_restored_from_what_it_has_learned(folder: Path):
    run = regard.train(folder / "transformer.yaml", out=folder / "run", progress=False)
    assert (run.path / "subwords.model").read_bytes() == b"b"
    plugins._objects.clear()
    codec = Run(run.path, trust_code=True).codec
    assert codec.tokenization.source_tokens("abc") == ["a", "B", "c"]
    assert codec.text(codec.target_vocabulary.to_ids(["a", "B", "c"])) == "abc"
