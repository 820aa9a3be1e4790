"""Small studies over the brief experiment of 12 steps, and fake workers that take a second."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.studies import parsing
from regard.studies.definition import Study
from regard.studies.results import StudyResults
from regard.studies.run_results import ConditionResults, Result
from regard.workers import local
from regard.workers.job import STOPPED

# A fake worker; tests append its behavior. It parses no experiment, which would import torch.
WORKER = f"""
import json, re, signal, sys, time
from pathlib import Path
STOPPED = {STOPPED}
request = json.loads(sys.stdin.readline())
seed = int(re.search(r"training:\\n  seed: (\\d+)", request["experiment"])[1])
print(json.dumps({{"phase": "training", "done": 3, "total": 12}}), flush=True)
def write_results():
    from regard.studies.evaluations import EvaluationSpec
    for evaluation in request["evaluations"]:
        path = EvaluationSpec.from_dict(evaluation).file(Path(request["path"]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{{}}")
"""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the worker by a fake one with the given behavior."""

    def use(behavior: str) -> None:
        monkeypatch.setattr(local, "worker_command", lambda module: [sys.executable, "-P", "-c", WORKER + behavior])

    return use


@pytest.fixture(scope="session")
def new_study(tiny_file: Path, brief_settings: tuple[str, ...]) -> Callable[..., Study]:
    """A study over the brief experiment: `new_study(vary=["model.attention.kind=none,dot"], seeds=2)`."""

    def make(name: str = "brief", **given: Any) -> Study:
        given["set"] = [*brief_settings, *given.get("set", [])]
        return parsing.build_study(name, parsing.from_options(experiment=str(tiny_file), **given))

    return make


@pytest.fixture(scope="session")
def new_results(new_study: Callable[..., Study]) -> Callable[..., StudyResults]:
    """Results of a study if a share of the outputs were correct: `new_results({"none": [0.1, 0.2]}, …)`.

    For each condition, by its label, the share of each seed. The first outputs are the correct ones.
    """

    def make(shares: Mapping[str, Sequence[float]], sentences: int = 100, **given: Any) -> StudyResults:
        study = new_study(**given)
        cells = []
        for condition in study.conditions:
            own = shares.get(study.label(condition), [])
            fake = [_fake_result(seed, share, sentences) for seed, share in enumerate(own, start=1)]
            results = [result.with_metrics(study.metrics) for result in fake]  # as `collect_results` does
            cells.append(ConditionResults(condition, study.label(condition), tuple(results)))
        done = sum(len(cell.results) for cell in cells)
        return StudyResults(study, tuple(cells), len(study.conditions) * study.plan.seeds, done, ())

    return make


def _fake_result(seed: int, share: float, sentences: int) -> Result:
    sources = tuple("abcde"[: 1 + number % 5] + str(number) for number in range(sentences))
    outputs = tuple(source if number < share * sentences else "?" for number, source in enumerate(sources))
    exact = sum(map(str.__eq__, sources, outputs)) / sentences
    metrics = tuple(
        {"step": step, "validation_loss": 3 - share - step / 10, "seconds": step * 2.0}
        | {"validation_exact_match": share}
        for step in (4, 8, 12)
    )
    return Result(
        seed=seed,
        run=Path(f"copy-0123456789-{seed}"),
        evaluation={"exact_match": exact, "loss": 1.5, "beam": 1, "length_penalty": 0.0},
        sources=sources,
        lengths=tuple(map(len, sources)),
        targets=tuple((source,) for source in sources),
        outputs=outputs,
        validations=metrics,
        best=metrics[-1],
    )
