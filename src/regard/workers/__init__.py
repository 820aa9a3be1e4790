"""Jobs in processes of their own, several at a time: on this machine, or on a cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.workers.runner import Executor


def open_executor(at_once: int, cluster: str | None, folder: Path) -> AbstractContextManager[Executor]:
    """An executor of jobs, which is closed at the end of the block.

    Args:
        at_once: How many processes run at a time on this machine.
        cluster: The address of a Dask scheduler, to run them on its workers instead.
        folder: Where jobs write their results; all workers share it.

    Raises:
        UserError: The cluster cannot be used.
    """
    if cluster is None:
        from regard.workers.local import LocalExecutor

        return nullcontext(LocalExecutor(at_once))
    from regard.workers.dask_cluster import open_cluster

    return open_cluster(cluster, folder)
