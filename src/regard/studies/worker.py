"""One run of a study, in a process of its own: it is trained, or goes on with its training, and sits its exams.

    python -m regard.studies.worker < REQUEST

A request is a JSON object (see `Request`). How far the work has come is told on standard output, a JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import experiments, files
from regard.config import Experiment
from regard.errors import UserError
from regard.studies.exams import Exam

TELL_EVERY = 0.5  # seconds
STOPPED = 75  # the exit code of a worker that was asked to stop: all is saved to go on from


@dataclass(frozen=True)
class Request:
    path: Path  # of the run
    experiment: Experiment
    exams: list[Exam]

    def dump(self) -> str:
        return json.dumps(
            {
                "path": str(self.path),
                "experiment": experiments.dump(self.experiment),
                "exams": [exam.as_json() for exam in self.exams],
            }
        )

    @classmethod
    def parse(cls, text: str) -> Request:
        known = json.loads(text)
        experiment = experiments.parse(known["experiment"], "the request")
        return cls(Path(known["path"]), experiment, [Exam.from_json(exam) for exam in known["exams"]])

    def left(self) -> list[Exam]:
        """The exams that are still to be sat. With none left, all is done."""
        return [exam for exam in self.exams if not exam.file(self.path).is_file()]


class Reporter:
    """An observer that tells the process which has started this one, and stops when asked to, or when that is gone."""

    def __init__(self) -> None:
        self.stopping = False
        self.parent = os.getppid()
        self.told_at = 0.0
        self.steps = 0
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, *_: object) -> None:
        self.stopping = True

    def tell(self, doing: str, done: int, total: int | None, urgent: bool = False) -> None:
        if urgent or time.monotonic() - self.told_at >= TELL_EVERY:
            self.told_at = time.monotonic()
            print(json.dumps({"doing": doing, "done": done, "total": total}), flush=True)

    def learning(self) -> None:
        self.tell("reading", 0, None, urgent=True)

    def reading(self, split: str, pairs: int) -> None:
        self.tell("reading", pairs, None)

    def began(self, progress: Any, steps: int, parameters: int) -> None:
        self.steps = steps
        self.tell("training", progress.step, steps, urgent=True)

    def stepped(self, progress: Any, loss: float) -> None:
        self.tell("training", progress.step, self.steps)

    def validated(self, row: dict[str, Any], best: bool) -> None:
        self.tell("training", row["step"], self.steps)

    def wants_to_stop(self) -> bool:
        return self.stopping or os.getppid() != self.parent


def work(request: Request, reporter: Reporter) -> bool:
    """Train and sit the exams that are left; False if asked to stop before the end."""
    from regard.runs import Run
    from regard.training import Stopped, train
    from regard.translator import Translator

    try:
        if not train(request.experiment, request.path, reporter).finished:
            return False
    except Stopped:
        return False
    translator = Translator(Run(request.path))
    return all(sit(translator, exam, reporter) for exam in request.left())


def sit(translator: Any, exam: Exam, reporter: Reporter) -> bool:
    """Translate, score, and keep both with the run; False if asked to stop."""
    from regard.evaluation.scores import Examination, as_json
    from regard.search import Search

    manner = exam.manner
    examination = Examination(translator, manner.split, exam.data)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        reporter.tell("testing", done, len(examination.pairs))
        if reporter.wants_to_stop():
            raise InterruptedError

    try:
        search = Search(beam=manner.beam, length_penalty=manner.length_penalty)
        evaluation, translations = examination.translate(search, advance)
    except InterruptedError:
        return False
    result = {
        "exam": exam.as_json(),
        "evaluation": as_json(evaluation),
        "sources": [pair.source for pair in examination.pairs],
        "lengths": [len(translation.source_tokens) - 1 for translation in translations],  # without the end
        "targets": [[pair.target, *pair.others] for pair in examination.pairs],
        "outputs": [translation.text for translation in translations],
    }
    path = exam.file(translator.runs[0].path)
    path.parent.mkdir(exist_ok=True)
    files.write(path, json.dumps(result, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return True


def main() -> None:
    reporter = Reporter()
    try:
        finished = work(Request.parse(sys.stdin.read()), reporter)
    except UserError as error:
        sys.exit(str(error))
    sys.exit(0 if finished else STOPPED)


if __name__ == "__main__":
    main()
