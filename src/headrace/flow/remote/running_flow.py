"""A flow that runs, on this machine or elsewhere, as commands and the console use it."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from headrace.flow.error import FlowError
from headrace.flow.monitoring.metrics import FlowFigures, read_figures
from headrace.flow.monitoring.run_folder import Run, RunFolder
from headrace.flow.plan.graph import Graph
from headrace.flow.remote.remote_run import RemoteRun
from headrace.flow.remote.run_table import check_reporting

if TYPE_CHECKING:  # it loads the record kernels, which a flow of this machine does not need
    from headrace.flow.remote.remote_control import RemoteControl

_STOP_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.1


class RunningFlow(Protocol):
    """What commands and the console do with a flow, wherever its driver runs. Every method that
    changes it returns when that is done, and raises FlowError if it cannot be."""

    @property
    def run(self) -> Run | RemoteRun: ...

    @property
    def graph(self) -> Graph: ...

    @property
    def alive(self) -> bool: ...

    def figures(self) -> FlowFigures: ...

    def stop(self, *, now: bool) -> None: ...

    def restart(self) -> None: ...

    def activate(self) -> None: ...

    def deactivate(self) -> None: ...

    def rebalance(self, parallelism: Mapping[str, int], partitions: int | None) -> None: ...


class LocalFlow:
    """A flow whose driver is a process of this machine."""

    def __init__(self, run_folder: RunFolder, run: Run) -> None:
        self._folder = run_folder
        self.run = run

    @property
    def graph(self) -> Graph:
        return graph_of(self.run)

    @property
    def alive(self) -> bool:
        return self.run.alive

    def figures(self) -> FlowFigures:
        run = self.run
        if run.metrics is None:
            raise FlowError(f"{run.name} does not serve metrics")
        try:
            return read_figures(run.metrics)
        except (OSError, ValueError) as error:
            raise FlowError(f"{run.name} does not answer on {run.metrics}: {error}") from error

    def stop(self, *, now: bool) -> None:
        self._folder.stop(self.run, now=now)
        deadline = time.monotonic() + _STOP_SECONDS
        while self.run.alive:
            if time.monotonic() > deadline:
                raise FlowError(
                    f"{self.run.name} (pid {self.run.pid}) did not stop in {_STOP_SECONDS:g} s: it"
                    " does after the batch at hand"
                )
            time.sleep(_POLL_SECONDS)

    def restart(self) -> None:
        self._folder.restart(self.run)

    def activate(self) -> None:
        self._folder.activate(self.run)

    def deactivate(self) -> None:
        self._folder.deactivate(self.run)

    def rebalance(self, parallelism: Mapping[str, int], partitions: int | None) -> None:
        self._folder.rebalance(self.run, parallelism, partitions)


class RemoteFlow:
    """A flow whose driver runs elsewhere, and reports to the brokers."""

    def __init__(self, control: "RemoteControl", run: RemoteRun) -> None:
        self._control = control
        self.run = run

    @property
    def graph(self) -> Graph:
        return graph_of(self.run)

    @property
    def alive(self) -> bool:
        return not self.run.is_lost(self._control.now_ms)

    def figures(self) -> FlowFigures:
        """Return the figures of its last report, which is a few seconds old."""
        self.run = self._control.refreshed(self.run)
        check_reporting(self.run, self._control.now_ms)
        if self.run.figures is None:
            raise FlowError(f"{self.run.name} ({self.run.application}) reports no figures")
        return self.run.figures

    def stop(self, *, now: bool) -> None:
        self._control.stop(self.run, now=now)

    def restart(self) -> None:
        self._control.restart(self.run)

    def activate(self) -> None:
        self._control.activate(self.run)

    def deactivate(self) -> None:
        self._control.deactivate(self.run)

    def rebalance(self, parallelism: Mapping[str, int], partitions: int | None) -> None:
        self._control.rebalance(self.run, parallelism, partitions)


def graph_of(run: Run | RemoteRun) -> Graph:
    """Return the graph that a run has registered. A landing registers none, and a report without
    room for it none either."""
    try:
        return Graph.from_json(run.graph)
    except (KeyError, TypeError):
        return Graph(run.name, "exactly-once", (), ())
