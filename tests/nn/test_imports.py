"""`regard.nn` can be used in a notebook without the rest of Regard."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import regard.nn
print(*sorted(name for name in sys.modules if name == "regard" or name.startswith("regard.")), sep="\\n")
"""


def test_importing_nn_imports_no_other_package_of_regard() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    imported = run.stdout.split()
    assert "regard.nn" in imported
    allowed = {"regard", "regard.errors", "regard.nn", "regard.config", "regard.config.base", "regard.config.kinds"}
    assert [name for name in imported if name not in allowed and not name.startswith("regard.nn.")] == []
