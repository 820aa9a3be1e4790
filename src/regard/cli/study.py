"""`regard compare` and `regard study`: run a study and print its results."""

from __future__ import annotations

import sys
from pathlib import Path

from regard.errors import UserError
from regard.studies.definition import Study
from regard.studies.execution import run_study
from regard.studies.study_folder import Wording
from regard.terminal.output import print_error, print_result
from regard.terminal.progress import InterruptHandler
from regard.terminal.tables import print_table

WORDING = Wording(out="--out", report="--report", call="command")


def run_and_print(
    study: Study, out: Path, runs: Path, jobs: int | None, cluster: str | None, *, report_only: bool, as_json: bool
) -> None:
    """Run what is left of a study, write its report, and print its results; Ctrl-C ends the program."""
    if jobs and cluster:
        raise UserError("give either --jobs, to train on this machine, or --cluster")
    interrupts = InterruptHandler()
    try:
        results = run_study(
            study, out, runs, jobs, cluster, report_only=report_only, interrupts=interrupts, wording=WORDING
        )
    except KeyboardInterrupt as stopped:
        if not interrupts.signal:
            raise
        print_error(str(stopped))
        sys.exit(interrupts.exit_code)
    if not results.has_scores:
        print_error(f"regard: {out}: no run is finished, so there is nothing to report")
        sys.exit(1 if results.failures else 2)
    if as_json:
        from regard.studies.export import dump_json

        print_result(dump_json(results))
    else:
        from regard.studies.report import PAGE
        from regard.studies.tables import all_tables

        for table in all_tables(results):
            print_table(table.head, table.rows, title=table.caption)
            print_result()
        print_result(f"{out / PAGE}: the whole report")
    if results.failures:
        sys.exit(1)
