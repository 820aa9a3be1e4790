"""Run a study from its definition to its report: what `regard.compare` and the commands `compare` and `study` share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any

from regard import files
from regard.config import plugins
from regard.config.loading import resolve_experiment
from regard.config.schema import Experiment
from regard.errors import UserError
from regard.studies import arguments, parsing
from regard.studies.definition import Study
from regard.studies.jobs import TrainingJob, training_jobs
from regard.studies.progress_display import failure_lines, print_failure, study_observer
from regard.studies.study_folder import EXPERIMENT, Wording, check_study_folder, default_folder, write_definition
from regard.terminal.progress import InterruptHandler
from regard.workers import open_executor
from regard.workers.runner import run_jobs

if TYPE_CHECKING:
    from regard.studies.results import StudyResults


def compare(
    experiment: str | Path | Mapping[str, Any] | Experiment | None = None,
    vary: Mapping[str, Any] | None = None,
    *,
    test: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    baseline: Mapping[str, Any] | None = None,
    metrics: str | Sequence[str] = (),
    method: str | None = None,
    config: str | Path | None = None,
    out: str | Path | None = None,
    runs: str | Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    report_only: bool = False,
    progress: bool = True,
) -> StudyResults:
    """Train and evaluate a grid of settings × seeds, and compare the results; `regard compare` as a function.

    The study and its report are stored in the folder `out`. The same call again continues after an interruption, and
    trains nothing that is finished; more seeds, values or axes train the new runs only. A run that fails does not stop
    the others.

    Args:
        experiment: A recipe's name, the path of a YAML file, the settings as a nested dict, or an `Experiment`.
        vary: The axes of training: a key with a list of values, as `{"model.attention.kind": ["none", "dot"]}`, or a
            name with groups of settings, as `{"size": {"small": {"model.encoder.size": 32}, "large": {…}}}`.
        test: The axes of evaluation, in the same form: `beam`, `length_penalty`, `split` and the keys of `data`.
        overrides: Settings of all runs, by key: `{"training.epochs": 5}`.
        seeds: Number of runs of each condition (default: 3, or as `config` defines).
        baseline: For some axes, the value that the others are compared with (default: the first one).
        metrics: The metrics to report; the first one is compared (default: the main metric of the task).
        method: The test over sentences: "randomization" (default) or "bootstrap".
        config: A study as a YAML file, in place of `experiment`. The other arguments add to it.
        out: The folder of the study (default: `studies/NAME`, or that of `config`, if it is in one).
        runs: The folder of run directories, which studies share (default: `runs`, next to `out`).
        jobs: Number of runs that are trained at the same time (default: one per core).
        cluster: The address of a Dask scheduler, as `tcp://HOST:8786`, on whose workers runs are trained instead.
        report_only: Train nothing; report on finished runs.
        progress: Show the progress and print failures.

    Returns:
        The results. `failures` has the runs that have failed.

    Raises:
        UserError: An argument is invalid, or no run has finished.
        KeyboardInterrupt: After Ctrl-C. The runs have saved their state.
    """
    plugins.check_not_importing("regard.compare was called")
    if (experiment is None) == (config is None):
        raise UserError("give either an experiment with vary, or config, the path of a study file")
    if jobs is not None and (not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1):
        raise UserError(f"jobs: {short_repr(jobs)} should be a positive number of runs that are trained at a time")
    if jobs is not None and cluster is not None:
        raise UserError("give either jobs, to train on this machine, or cluster")
    file = files.parse_path(config, "config") if config is not None else None
    name, given = _split_experiment(experiment)
    if out is None and given:
        raise UserError("out: choose the folder of the study; this experiment has no name from which to derive one")
    folder = files.parse_path(out, "out") if out is not None else default_folder(name, file)
    run_folder = files.parse_path(runs, "runs") if runs is not None else folder.parent / "runs"
    if run_folder.exists() and not run_folder.is_dir():
        raise UserError(f"runs: {run_folder} is a file; it should be a folder of run directories")
    added = arguments.from_values(
        {"vary": vary, "test": test, "overrides": overrides, "baseline": baseline},
        {
            "experiment": os.path.abspath(folder / EXPERIMENT) if given else name,
            "seeds": seeds,
            "metrics": [metrics] if isinstance(metrics, str) else metrics or None,
            "method": method,
        },
    )
    check_files = not (report_only or folder.exists())
    study = parsing.build_study(
        folder.resolve().name,
        parsing.override_leaves(parsing.parse_study_file(file) if file else [], added),
        file.parent if file else Path(),
        check_files=check_files,
        load=partial(resolve_experiment, given, check_files=check_files) if given else None,
    )
    results = run_study(
        study, folder, run_folder, jobs, cluster, experiment=given, report_only=report_only, progress=progress
    )
    if not results.has_scores:
        reasons = [line for job in results.failures for line in failure_lines(job)]
        raise UserError("\n".join([f"{folder}: no run is finished, so there is nothing to report", *reasons]))
    return results


def _split_experiment(experiment: Any) -> tuple[str | None, Experiment | None]:
    """The name of a recipe or file, or an experiment that has none."""
    if experiment is None or isinstance(experiment, str):
        return experiment, None
    if isinstance(experiment, os.PathLike):  # never a recipe
        return os.path.abspath(experiment), None
    return None, resolve_experiment(experiment)


def run_study(
    study: Study,
    out: Path,
    runs: Path,
    at_once: int | None,
    cluster: str | None = None,
    *,
    experiment: Experiment | None = None,
    report_only: bool = False,
    progress: bool = True,
    interrupts: InterruptHandler | None = None,
    wording: Wording = Wording(),  # noqa: B008 (immutable)
) -> StudyResults:
    """Run what is left of a study, write its report, and return its results. Without any result there is no report.

    Args:
        study: The study.
        out: Its folder.
        runs: The folder of run directories.
        at_once: How many processes run at a time; None: one per core.
        cluster: The address of a Dask scheduler, to run them on its workers instead.
        experiment: The experiment of the study if it has no file of its own.
        report_only: Train nothing; report on finished runs.
        progress: Show the progress and print failures.
        interrupts: Records signals; by default, one for a program that continues afterwards.
        wording: What options are called in messages.

    Raises:
        UserError: The folder belongs to something else, another process is running this study, or the cluster cannot be
            used.
        KeyboardInterrupt: A signal was recorded. The runs have saved their state.
    """
    if cluster is not None:
        runs = runs.absolute()  # workers have other current folders
    jobs = training_jobs(study, runs)
    check_study_folder(study, out, experiment, wording, must_exist=report_only)
    if report_only:
        for job in jobs:
            job.load_failure()
            if progress:
                print_failure(job)
        return _report_study(study, jobs, out, progress)
    if all(job.state == "done" for job in jobs):
        cluster = None
    with open_executor(at_once or core_count(), cluster, runs) as executor, files.lock_folder(out) as alone:
        if not alone:
            raise UserError(f"{out}: another process is running this study; {wording.report} shows finished runs")
        write_definition(study, out, experiment)
        interrupts = interrupts or InterruptHandler(owns_process=False, quiet=not progress)
        with interrupts, study_observer(study, executor, interrupts, shown=progress) as observer:
            run_jobs(jobs, executor, observer)
        if interrupts.signal:
            done = sum(job.state == "done" for job in jobs)
            raise KeyboardInterrupt(
                f"{out}: stopped with {done} of {len(jobs)} runs done; run the same {wording.call} again to continue"
            )
        return _report_study(study, jobs, out, progress)


def _report_study(study: Study, jobs: Sequence[TrainingJob], out: Path, progress: bool) -> StudyResults:
    """Collect the results and write the report."""
    from regard.studies.report import write_report
    from regard.studies.results import collect_results

    failed = [job for job in jobs if job.state == "failed"]
    results = collect_results(study, jobs, out)
    for job in results.failures:
        if progress and job not in failed:
            print_failure(job)
    if results.has_scores:
        write_report(results, out)
    return results


def core_count() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
