"""One run of a study, in a process of its own: it is trained, or goes on with its training, and sits its exams.

    python -m regard.studies.worker < REQUEST

A request is a JSON object (see `Request`). How far the work has come is told on standard output, a JSON object a line.
Whoever has started it reads them; when nobody does any more, it saves what it has and stops.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from regard import files
from regard.config import loading
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.studies.evaluations import EvaluationSpec

if TYPE_CHECKING:
    from regard.inference.translator import Translator

TELL_EVERY = 0.5  # seconds
STOPPED = 75  # the exit code of a worker that was asked to stop: all is saved to go on from


@dataclass(frozen=True)
class Request:
    path: Path  # of the run
    experiment: Experiment
    exams: list[EvaluationSpec]

    def dump(self) -> str:
        return json.dumps(
            {
                "path": str(self.path),
                "experiment": loading.dump_experiment(self.experiment),
                "exams": [exam.as_json() for exam in self.exams],
            }
        )

    @classmethod
    def parse(cls, text: str) -> Request:
        known = json.loads(text)
        experiment = loading.parse_experiment(known["experiment"], "the request")
        return cls(Path(known["path"]), experiment, [EvaluationSpec.from_json(exam) for exam in known["exams"]])

    def left(self) -> list[EvaluationSpec]:
        """The exams that are still to be sat. With none left, all is done."""
        return [exam for exam in self.exams if not exam.file(self.path).is_file()]


class Reporter:
    """An observer that tells how far the work has come, and stops when asked to, or when nobody listens any more."""

    def __init__(self, channel: BinaryIO) -> None:
        self.channel = channel
        self.stopping = False
        self.told_at = 0.0
        self.steps = 0

    def stop(self, *_: object) -> None:
        self.stopping = True

    def tell(self, doing: str, done: int, total: int | None, urgent: bool = False) -> None:
        if urgent or time.monotonic() - self.told_at >= TELL_EVERY:
            self.told_at = time.monotonic()
            try:
                self.channel.write(json.dumps({"doing": doing, "done": done, "total": total}).encode() + b"\n")
            except BrokenPipeError:
                self.stop()

    def on_tokenizer_training(self) -> None:
        self.tell("reading", 0, None, urgent=True)

    def on_examples_read(self, split: str, pairs: int) -> None:
        self.tell("reading", pairs, None)

    def on_train_begin(self, progress: Any, steps: int, parameters: int) -> None:
        self.steps = steps
        self.tell("training", progress.step, steps, urgent=True)

    def on_step_end(self, progress: Any, loss: float) -> None:
        self.tell("training", progress.step, self.steps)

    def on_validation_end(self, row: dict[str, Any], best: bool) -> None:
        self.tell("training", row["step"], self.steps)

    def should_stop(self) -> bool:
        return self.stopping


def work(request: Request, reporter: Reporter) -> None:
    """Train, and sit the exams that are left. `TrainingStopped` is raised if it was asked to stop before the end."""
    from regard.training import TrainingStopped, train

    with own_turn(request.path, reporter):
        if not train(request.experiment, request.path, reporter).finished:
            raise TrainingStopped
        run_evaluations(request, reporter)


@contextmanager
def own_turn(path: Path, reporter: Reporter) -> Iterator[None]:
    """Another study may be at work on the same run: then this one waits."""
    from regard.training import TrainingStopped

    while not reporter.should_stop():
        with files.lock_file(path.with_name(f".{path.name}.lock")) as alone:
            if alone:
                yield
                return
        reporter.tell("waiting", 0, None)
        time.sleep(TELL_EVERY)
    raise TrainingStopped


def run_evaluations(request: Request, reporter: Reporter) -> None:
    """Each exam that is left. One that this run cannot sit does not stop the others."""
    from regard.inference.translator import Translator
    from regard.runs import Run

    translator = Translator(Run(request.path))
    errors = []
    left = request.left()
    for number, exam in enumerate(left):
        try:
            run_evaluation(translator, exam, reporter, before=number, after=len(left) - number - 1)
        except UserError as error:
            errors.append(str(error))
    if errors:
        raise UserError("\n".join(errors))


def run_evaluation(translator: Translator, exam: EvaluationSpec, reporter: Reporter, before: int, after: int) -> None:
    """Translate, score, and keep both with the run. There are exams before and after this one."""
    from regard.evaluation.evaluator import Evaluator
    from regard.search import SearchOptions
    from regard.training import TrainingStopped

    run, manner = translator.runs[0], exam.manner
    examination = Evaluator(translator, manner.split, exam.data)
    if examination.changed:
        raise UserError(f"{run.path}: the {manner.split} split is not what it was in training; remove this run")
    sentences = len(examination.pairs)
    done = before * sentences

    def advance(count: int) -> None:
        nonlocal done
        done += count
        reporter.tell("testing", done, (before + 1 + after) * sentences)
        if reporter.should_stop():
            raise TrainingStopped

    search = SearchOptions(beam=manner.beam, length_penalty=manner.length_penalty)
    evaluation, translations = examination.translate(search, advance)
    result = {
        "exam": exam.as_json(),
        "evaluation": evaluation.to_dict(),
        "sources": [pair.source for pair in examination.pairs],
        "lengths": [max(0, len(translation.source_tokens) - 1) for translation in translations],  # without the end
        "targets": [[pair.target, *pair.other_targets] for pair in examination.pairs],
        "outputs": [translation.text for translation in translations],
        "translations": [translation.to_dict(attention=False) for translation in translations],
    }
    path = exam.file(run.path)
    path.parent.mkdir(exist_ok=True)
    for leftover in path.parent.glob(f".{path.name}.*"):  # of a process that was killed
        leftover.unlink()
    files.write_atomic(path, json.dumps(result, ensure_ascii=False).encode())


def worker_main() -> None:
    # What a library may print is not for those who read how far we are.
    reporter = Reporter(os.fdopen(os.dup(1), "wb", buffering=0))
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, reporter.stop)
    request = Request.parse(sys.stdin.read())
    from regard.training import TrainingStopped

    try:
        work(request, reporter)
    except TrainingStopped:
        sys.exit(STOPPED)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    worker_main()
