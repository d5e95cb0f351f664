"""The flows that commands see: those of this machine, and those whose drivers run elsewhere.

The folder of runs has the first, the topic of runs the others. The brokers are asked only if some
are configured: a machine that has none has no flows in a cluster either, and should not wait.
"""

import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.cli.terminal.option import BROKERS_VARIABLE, client_settings
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.flow.error import FlowError
from headrace.flow.monitoring.metrics import FlowFigures, read_figures
from headrace.flow.monitoring.run_folder import Run, RunFolder
from headrace.flow.plan.graph import Graph
from headrace.flow.remote.remote_run import RemoteRun, instance_of
from headrace.flow.remote.run_table import check_reporting, runs_named

if TYPE_CHECKING:
    from headrace.flow.remote.remote_control import RemoteControl

_STOP_SECONDS = 90.0
_POLL_SECONDS = 0.1


class RunningFlow(Protocol):
    """What the commands do with a flow, wherever its driver runs. Every method that changes it
    returns when that is done, and raises FlowError if it cannot be."""

    @property
    def run(self) -> Run | RemoteRun: ...

    @property
    def fields(self) -> dict[str, Any]:
        """What `describe` prints of it."""

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
    def fields(self) -> dict[str, Any]:
        run = self.run
        return {
            "name": run.name,
            "program": run.program,
            "pid": run.pid,
            "application": None,
            "host": socket.gethostname(),
            "state": run.state,
            "age": age_text(run.started_ms),
            "master": run.master,
            "brokers": run.brokers,
            "checkpoint": run.checkpoint,
            "console": run.console,
            "metrics": run.metrics,
        }

    @property
    def graph(self) -> Graph:
        return _graph(self.run)

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
                    f"{self.run.name} (pid {self.run.pid}) did not stop in {_STOP_SECONDS:g} s"
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
    def fields(self) -> dict[str, Any]:
        run = self.run
        return {
            "name": run.name,
            "program": run.program,
            "pid": None,  # of another machine
            "application": run.application,
            "host": run.host,
            "state": run.state(self._control.now_ms),
            "age": age_text(run.started_ms),
            "master": run.master,
            "brokers": run.brokers,
            "checkpoint": run.checkpoint,
            "console": run.console,
            "metrics": None,
        }

    @property
    def graph(self) -> Graph:
        return _graph(self.run)

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


def running_flows(brokers: str | None, pairs: list[str] | None) -> list[RunningFlow]:
    """Return the flows of this machine, then those of others that the brokers know of.

    What hinders to ask the brokers is a warning: the flows of this machine are there all the same.
    """
    local, remote, problem = _flows(brokers, pairs)
    if problem is not None:
        _warn(problem)
    return [*local, *remote]


def find_flow(name: str, brokers: str | None, pairs: list[str] | None) -> RunningFlow:
    """Return the flow with this name, pid or application.

    Raises:
        FlowError: there is none, or there are several.
    """
    if name.isdecimal():
        for each in (LocalFlow(RunFolder(), run) for run in RunFolder().runs()):
            if name == str(each.run.pid):
                return each  # brokers that do not answer must not delay this
    local, remote, problem = _flows(brokers, pairs)
    found = _only(name, local, remote)
    if found is not None:
        if problem is not None:
            _warn(problem)
        return found
    if problem is not None:
        raise FlowError(f"no flow called {name} runs on this machine, and {problem}")
    flows: list[RunningFlow] = [*local, *remote]
    names = ", ".join(dict.fromkeys(each.run.name for each in flows))
    there = f"there are {names}" if names else "none runs on this machine"
    raise FlowError(f"no flow called {name} runs: {there}")


def named_flow(name: str, brokers: str | None) -> RunningFlow | None:
    """Return the flow with this name, pid or application, if there is one.

    Raises:
        FlowError: there are several.
    """
    local, remote, problem = _flows(brokers, None)
    found = _only(name, local, remote)
    if found is None and problem is not None:
        _warn(problem)
    return found


def _only(
    name: str, local: Sequence[LocalFlow], remote: Sequence[RemoteFlow]
) -> RunningFlow | None:
    here = [each for each in local if name in (each.run.name, str(each.run.pid))]
    chosen = {each.instance for each in runs_named((each.run for each in remote), name, _now_ms())}
    elsewhere = [
        each for each in remote if each.run.instance in chosen and (each.alive or not here)
    ]
    named: list[RunningFlow] = [*here, *elsewhere]
    if len(named) > 1:
        ids = [f"pid {each.run.pid}" for each in here]
        ids += sorted(each.run.application for each in elsewhere)
        raise FlowError(
            f"several flows called {name} run: choose one by its pid or application,"
            f" {', '.join(ids)}"
        )
    return named[0] if named else None


def _flows(
    brokers: str | None, pairs: list[str] | None
) -> tuple[list[LocalFlow], list[RemoteFlow], str | None]:
    """Return the flows here and elsewhere, and why the latter are not known."""
    folder = RunFolder()
    local = [LocalFlow(folder, each) for each in folder.runs()]
    if not _is_configured(brokers, pairs):
        return local, [], None
    # Imported here: it loads the record kernels.
    from headrace.flow.remote.remote_control import RemoteControl

    control = RemoteControl(client_settings(brokers, pairs))
    try:
        runs = control.runs()
    except FlowError as error:
        return local, [], str(error)
    here = {instance_of(each.run, socket.gethostname()) for each in local}
    return local, [RemoteFlow(control, each) for each in runs if each.instance not in here], None


def _graph(run: Run | RemoteRun) -> Graph:
    """Return the graph that a run has registered. A landing registers none, and a report without
    room for it none either."""
    try:
        return Graph.from_json(run.graph)
    except (KeyError, TypeError):
        return Graph(run.name, "exactly-once", (), ())


def _is_configured(brokers: str | None, pairs: list[str] | None) -> bool:
    variables = (BROKERS_VARIABLE, CLIENT_CONFIG_VARIABLE)
    return bool(brokers or pairs or any(os.environ.get(each) for each in variables))


def _warn(problem: str) -> None:
    print(f"headrace: flows of other machines are not known: {problem}", file=sys.stderr)


def age_text(started_ms: int) -> str:
    seconds = max(0, _now_ms() - started_ms) // 1_000
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds % 60:02}s"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
