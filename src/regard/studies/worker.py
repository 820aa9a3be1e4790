"""One run of a study, in a process of its own: train it, or continue its training, then evaluate it.

    python -m regard.studies.worker < REQUEST

The request is a JSON object (see `WorkerRequest`). `regard.workers.reporting` describes the protocol.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import files
from regard.config import loading, plugins
from regard.config.families import plugin_names
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.studies.evaluations import EvaluationSpec
from regard.training.callbacks import Callback, TrainingStopped
from regard.workers.reporting import REPORT_INTERVAL, Reporter, WorkerStopped, worker_main

if TYPE_CHECKING:
    from torch import Tensor

    from regard.inference.translator import Translator
    from regard.runs import Run
    from regard.training.trainer import Trainer


@dataclass(frozen=True)
class WorkerRequest:
    """What a worker has to do.

    Args:
        path: The run directory.
        experiment: What to train.
        evaluations: What to evaluate the trained model on.
    """

    path: Path
    experiment: Experiment
    evaluations: list[EvaluationSpec]

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {
                "sys.path": [os.path.abspath(folder) for folder in sys.path],  # where plug-ins are found
                "code": _code_digests(self.experiment),
                "path": str(self.path),
                "experiment": loading.dump_experiment(self.experiment),
                "evaluations": [evaluation.to_dict() for evaluation in self.evaluations],
            }
        )

    @classmethod
    def parse(cls, text: str) -> WorkerRequest:
        """The inverse of `dump`.

        Args:
            text: One line of JSON.
        """
        values = json.loads(text)
        sys.path += [folder for folder in values["sys.path"] if folder not in sys.path]
        experiment = loading.parse_experiment(values["experiment"], "the request")
        if _code_digests(experiment) != values["code"]:
            raise UserError("the code of a plug-in has changed while the study was running; run the study again")
        return cls(Path(values["path"]), experiment, [EvaluationSpec.from_dict(each) for each in values["evaluations"]])

    def pending(self) -> list[EvaluationSpec]:
        """The evaluations that have no result yet. If there are none, everything is done."""
        return [evaluation for evaluation in self.evaluations if evaluation.find(self.path) is None]


def _code_digests(experiment: Experiment) -> dict[str, str | None]:
    return {name: plugins.describe_code(name, Path()).get("sha256") for name in plugin_names(experiment)}


class TrainingReporter(Reporter, Callback):
    """A callback that reports the progress of a training, and stops it.

    Args:
        channel: Where to write progress.
    """

    def on_tokenizer_training(self) -> None:
        self.send("reading", 0, None, urgent=True)

    def on_examples_read(self, split: str, pairs: int) -> None:
        self.send("reading", pairs, None)
        if self.stopping:
            raise TrainingStopped

    def on_train_begin(self, trainer: Trainer) -> None:
        self.send("training", trainer.progress.step, trainer.steps, urgent=True)

    def on_step_end(self, trainer: Trainer, loss: Tensor) -> None:
        self.send("training", trainer.progress.step, trainer.steps)

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        self.send("training", trainer.progress.step, trainer.steps)


def run_request(request: WorkerRequest, reporter: TrainingReporter) -> None:
    """Train the run and do its pending evaluations.

    Args:
        request: What to do.
        reporter: Receives the progress.

    Raises:
        TrainingStopped: If the reporter wanted to stop before the end.
    """
    from regard.training.train_run import train_run

    with exclusive_access(request.path, reporter):
        run = train_run(request.experiment, request.path, reporter)
        if not run.progress.finished:
            raise TrainingStopped
        run_evaluations(run, request.experiment.training.device, request.pending(), reporter)


@contextmanager
def exclusive_access(path: Path, reporter: TrainingReporter) -> Iterator[None]:
    """Lock a run. If another study is using it, wait.

    Args:
        path: The run directory.
        reporter: Receives the progress; its `should_stop` ends the wait.
    """
    while not reporter.should_stop():
        with files.lock_file(path.with_name(f".{path.name}.lock")) as alone:
            if alone:
                yield
                return
        reporter.send("waiting", 0, None)
        time.sleep(REPORT_INTERVAL)
    raise TrainingStopped


def run_evaluations(run: Run, device: str, pending: Sequence[EvaluationSpec], reporter: TrainingReporter) -> None:
    """Do the pending evaluations. One that is impossible for this run does not stop the others.

    Args:
        run: The finished run.
        device: The name of the device that computes.
        pending: The evaluations.
        reporter: Receives the progress.
    """
    from regard.inference.translator import Translator

    if not pending:
        return
    translator = Translator(run, device=device)
    errors = []
    for number, evaluation in enumerate(pending):
        try:
            run_evaluation(translator, evaluation, reporter, before=number, after=len(pending) - number - 1)
        except UserError as error:
            errors.append(str(error))
    if errors:
        raise UserError("\n".join(errors))


def run_evaluation(
    translator: Translator, evaluation: EvaluationSpec, reporter: TrainingReporter, before: int, after: int
) -> None:
    """Translate and score a split, and store both in the run directory.

    Args:
        translator: The model of the run.
        evaluation: Which sentences, and how to decode them.
        reporter: Receives the progress.
        before: How many evaluations have been done.
        after: How many are still to be done.
    """
    from regard.evaluation.evaluation_data import EvaluationData
    from regard.evaluation.evaluator import Evaluator

    run, options = translator.runs[0], evaluation.options
    evaluator = Evaluator(translator, EvaluationData.of_split(evaluation.data, options.split))
    if evaluator.changed:
        raise UserError(f"{run.path}: the {options.split} split has changed since training; remove this run")
    sentences = len(evaluator.pairs)
    done = before * sentences

    def advance(count: int) -> None:
        nonlocal done
        done += count
        reporter.send("evaluating", done, (before + 1 + after) * sentences)
        if reporter.should_stop():
            raise TrainingStopped

    result, translations = evaluator.translate(options.search_options(), advance)
    stored = {
        "spec": evaluation.to_dict(),
        "evaluation": result.to_dict(),
        "sources": [pair.source for pair in evaluator.pairs],
        "lengths": [max(0, len(translation.source_tokens) - 1) for translation in translations],  # without the end
        "targets": [list(references) for references in evaluator.references],
        "outputs": [translation.text for translation in translations],
        "translations": [translation.to_dict(attention=False) for translation in translations],
    }
    path = evaluation.file(run.path)
    path.parent.mkdir(exist_ok=True)
    files.write_atomic(path, json.dumps(stored, ensure_ascii=False).encode())


def carry_out(text: str, reporter: TrainingReporter) -> None:
    """The work of the process.

    Args:
        text: The request.
        reporter: Receives the progress.

    Raises:
        WorkerStopped: If the reporter wanted to stop before the end.
    """
    try:
        run_request(WorkerRequest.parse(text), reporter)
    except TrainingStopped:
        raise WorkerStopped from None


if __name__ == "__main__":
    worker_main(carry_out, TrainingReporter)
