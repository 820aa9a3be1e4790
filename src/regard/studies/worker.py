"""One run of a study, in a process of its own: train it, or continue its training, then evaluate it.

    python -m regard.studies.worker < REQUEST

The first line of standard input is a JSON object (see `WorkerRequest`); a line `stop` after it stops the worker. (A
line, not a signal: it works on Windows, too.) Progress is written to standard output, one JSON object per line. If
nobody reads it any more, the worker saves its state and stops.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO

from regard import files
from regard.config import loading, plugins
from regard.config.families import plugin_names
from regard.config.schema import Experiment
from regard.errors import UserError, failure_message
from regard.studies.evaluations import EvaluationSpec
from regard.training.callbacks import Callback, TrainingStopped

if TYPE_CHECKING:
    from regard.inference.translator import Translator
    from regard.runs import Run
    from regard.training.trainer import Trainer

REPORT_INTERVAL = 0.5  # seconds
STOP = "stop"
STOPPED = 75  # the exit code of a worker that has been stopped: its state is saved, to continue from


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
                "sys.path": [os.fspath(folder) for folder in sys.path],  # where plug-ins are found
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


class Reporter(Callback):
    """A callback that reports progress, and stops when requested or when nobody reads its reports.

    Args:
        channel: Where to write progress.
    """

    def __init__(self, channel: BinaryIO) -> None:
        self.channel = channel
        self.stopping = False
        self.reported_at = 0.0

    def stop(self, *_: object) -> None:
        self.stopping = True

    def send(self, phase: str, done: int, total: int | None, urgent: bool = False) -> None:
        """Write a line, unless the last one is recent and this one is not urgent."""
        if urgent or time.monotonic() - self.reported_at >= REPORT_INTERVAL:
            self.reported_at = time.monotonic()
            try:
                self.channel.write(json.dumps({"phase": phase, "done": done, "total": total}).encode() + b"\n")
            except OSError:  # a broken pipe
                self.stop()

    def on_tokenizer_training(self) -> None:
        self.send("reading", 0, None, urgent=True)

    def on_examples_read(self, split: str, pairs: int) -> None:
        self.send("reading", pairs, None)
        if self.stopping:
            raise TrainingStopped

    def on_train_begin(self, trainer: Trainer) -> None:
        self.send("training", trainer.progress.step, trainer.steps, urgent=True)

    def on_step_end(self, trainer: Trainer, loss: float) -> None:
        self.send("training", trainer.progress.step, trainer.steps)

    def on_validation_end(self, trainer: Trainer, metrics: dict[str, Any], best: bool) -> None:
        self.send("training", trainer.progress.step, trainer.steps)

    def should_stop(self) -> bool:
        return self.stopping


def run_request(request: WorkerRequest, reporter: Reporter) -> None:
    """Train the run and do its pending evaluations.

    Args:
        request: What to do.
        reporter: Receives the progress.

    Raises:
        TrainingStopped: If the reporter wanted to stop before the end.
    """
    from regard.training.trainer import train_run

    with exclusive_access(request.path, reporter):
        run = train_run(request.experiment, request.path, reporter)
        if not run.progress.finished:
            raise TrainingStopped
        run_evaluations(run, request.pending(), reporter)


@contextmanager
def exclusive_access(path: Path, reporter: Reporter) -> Iterator[None]:
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


def run_evaluations(run: Run, pending: Sequence[EvaluationSpec], reporter: Reporter) -> None:
    """Do the pending evaluations. One that is impossible for this run does not stop the others.

    Args:
        run: The finished run.
        pending: The evaluations.
        reporter: Receives the progress.
    """
    from regard.inference.translator import Translator

    if not pending:
        return
    translator = Translator(run)
    errors = []
    for number, evaluation in enumerate(pending):
        try:
            run_evaluation(translator, evaluation, reporter, before=number, after=len(pending) - number - 1)
        except UserError as error:
            errors.append(str(error))
    if errors:
        raise UserError("\n".join(errors))


def run_evaluation(
    translator: Translator, evaluation: EvaluationSpec, reporter: Reporter, before: int, after: int
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


def _stop_on_request(lines: BinaryIO, reporter: Reporter) -> None:
    for line in iter(lines.readline, b""):
        if line.strip() == STOP.encode():
            reporter.stop()


def worker_main() -> None:
    """Read a request from standard input and carry it out; the entry point of the process."""
    # Standard output is for progress; what a library prints goes to standard error.
    reporter = Reporter(os.fdopen(os.dup(1), "wb", buffering=0))
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, reporter.stop)
    lines = os.fdopen(os.dup(0), "rb", buffering=0)  # unbuffered: has no lock that a thread may hold at the end
    text = lines.readline().decode()
    Thread(target=_stop_on_request, args=(lines, reporter), daemon=True).start()
    try:
        run_request(WorkerRequest.parse(text), reporter)
    except TrainingStopped:
        sys.exit(STOPPED)
    except Exception as error:
        sys.exit(failure_message(error) or traceback.format_exc())


if __name__ == "__main__":
    worker_main()
