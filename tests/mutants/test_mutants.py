"""The list of deliberate breakages is usable; `make test-mutants` checks that they are caught."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from mutants.run import PACKAGE, ROOT, Mutant, load_mutants

ALL = load_mutants()


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: f"{Path(mutant.file).stem}: {mutant.breaks}")
def test_a_mutant_can_be_applied_and_its_tests_exist(mutant: Mutant) -> None:
    assert mutant.original != mutant.mutated
    ast.parse(mutant.source())  # raises ValueError unless the original text occurs once
    assert mutant.breaks.endswith(".")
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        content = (ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"def {name}\(", content), f"{test} does not exist"


def test_every_package_has_mutants() -> None:
    counts = Counter(Path(mutant.file).relative_to(PACKAGE).parts[0] for mutant in ALL)
    packages = {file.parent.name for file in (ROOT / PACKAGE).glob("*/__init__.py")}
    modules = {file.name for file in (ROOT / PACKAGE).glob("*.py") if not file.name.startswith("__")}
    assert counts.keys() == packages | modules
    assert counts.total() >= 40
    assert len({(mutant.file, mutant.original, mutant.mutated) for mutant in ALL}) == len(ALL)
