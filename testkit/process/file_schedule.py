"""Divides a test run between the processes of pytest-xdist, file by file.

Rule 1: files that share something that takes long to start (one Spark session, one cluster, the
directories that an Apache Kafka left) are one unit: it starts once, in one process.
Rule 2: a unit that keeps all cores busy runs beside one that mostly waits, while there is one. Two
of the first kind would only wait for each other.
Rule 3: units keep the order of the collection; `tests/conftest.py` sorts it.
"""

from collections.abc import Mapping, Sequence

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# With so many tests left, a process gets its next unit.
_FEW = 2


class FileSchedule(LoadScopeScheduling):
    """Hands a process the next unit when two tests of its last one are left.

    Args:
        units: the name of a unit, and how the paths of its files begin.
        busy: how the names of units begin that keep all cores busy.
    """

    def __init__(
        self,
        config: pytest.Config,
        log: object,
        *,
        units: Mapping[str, Sequence[str]],
        busy: Sequence[str],
    ) -> None:
        # It would begin with the units of most tests; those of few take longest.
        config.option.loadscopereorder = False
        super().__init__(config, log)  # type: ignore[arg-type]
        self._units = {beginning: name for name, all_ in units.items() for beginning in all_}
        self._busy = tuple(busy)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next(
            (name for beginning, name in self._units.items() if file.startswith(beginning)), file
        )

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(self._next_unit(node), last=False)
        super()._assign_work_unit(node)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        """Return how many tests are left, or any number above two: it is asked after every test,
        and counting all that the process has ever got would take longer each time."""
        pending = 0
        for tests in reversed(workload.values()):
            pending += list(tests.values()).count(False)
            if pending > _FEW:
                break
        return pending

    def _next_unit(self, node: WorkerController) -> str:
        is_wanted = not any(
            unit.startswith(self._busy) and not all(tests.values())
            for other, work in self.assigned_work.items()
            if other is not node
            for unit, tests in work.items()
        )
        fitting = (unit for unit in self.workqueue if unit.startswith(self._busy) == is_wanted)
        return next(fitting, next(iter(self.workqueue)))
