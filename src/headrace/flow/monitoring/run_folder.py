"""The flows that run on this machine: one small JSON file per flow, in a folder of the user.

Rule 1: a file belongs to the process with its pid and start time. A crash leaves the file behind.
        It is stale if no process has both; the next reader of the folder removes it.
Rule 2: a file is replaced as a whole, so that a reader never sees half of one.
Rule 3: a command that asks something of a flow writes a request beside its file. The flow removes
        the request and writes the outcome into its own file. Only the flow writes its file.
"""

import json
import os
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.flow.error import FlowError

FOLDER_VARIABLE = "HEADRACE_FLOWS"
RESTART = "restart"
ACTIVATE = "activate"
DEACTIVATE = "deactivate"
CHANGE_SECONDS = 120.0
_MAX_BYTES = 1 << 20
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One flow that runs.

    Attributes:
        started_ticks: when the kernel says that the process began; with the pid it is unique.
        program: the program as it was written on the command line.
        console: the address of Spark's own pages, if they are on.
        metrics: the HTTP address of its figures.
        graph: the plan, as `Graph.to_json` describes it.
        active: whether it reads anything; `headrace flow deactivate` makes it wait.
        outcome: the id of the last request, and why it failed or None.
    """

    name: str
    pid: int
    started_ticks: int
    started_ms: int
    program: str
    master: str
    brokers: str
    checkpoint: str | None = None
    console: str | None = None
    metrics: str | None = None
    graph: Mapping[str, Any] = field(default_factory=dict)
    active: bool = True
    outcome: tuple[str, str | None] | None = None

    @property
    def state(self) -> str:
        return "active" if self.active else "inactive"

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.started_ticks


def this_run(**attributes: Any) -> Run:
    """Return the run of this process."""
    return Run(
        pid=os.getpid(),
        started_ticks=start_ticks(os.getpid()) or 0,
        started_ms=time.time_ns() // 1_000_000,
        **attributes,
    )


class RunFolder:
    """The folder of runs: `$HEADRACE_FLOWS`, or one below the user's state folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()

    def runs(self) -> list[Run]:
        """Return the runs that are alive, the oldest first, and remove the files of others."""
        alive = []
        for path in sorted(self.folder.glob("*.json")):
            run = _read(path)
            if run is None:
                continue
            if run.alive:
                alive.append(run)
            else:
                path.unlink(missing_ok=True)
                self._request_path(run).unlink(missing_ok=True)
        return sorted(alive, key=lambda each: each.started_ms)

    def find(self, name: str) -> Run:
        """Return the run with this name or pid.

        Raises:
            FlowError: there is none, or there are several.
        """
        runs = self.runs()
        named = [each for each in runs if name in (each.name, str(each.pid))]
        if len(named) == 1:
            return named[0]
        if named:
            pids = ", ".join(str(each.pid) for each in named)
            raise FlowError(f"several flows called {name} run: choose one by its pid, {pids}")
        names = ", ".join(each.name for each in runs)
        there = f"there are {names}" if names else "none runs on this machine"
        raise FlowError(f"no flow called {name} runs: {there}")

    def check_free(self, checkpoint: str) -> None:
        """Refuse a checkpoint that another run uses: two queries would damage it.

        Raises:
            FlowError: a run that is alive has it.
        """
        for each in self.runs():
            if each.checkpoint == checkpoint:
                raise FlowError(
                    f"{each.name} runs already over the checkpoint {checkpoint}, with pid"
                    f" {each.pid}: stop it first, or give another --checkpoint"
                )

    def write(self, run: Run) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(run)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(run)))
        part.replace(path)

    def remove(self, run: Run) -> None:
        self._path(run).unlink(missing_ok=True)
        self._request_path(run).unlink(missing_ok=True)

    def ask(self, run: Run, request: Mapping[str, Any], *, seconds: float) -> None:
        """Send a request to a flow, and wait until it is done.

        Raises:
            FlowError: the flow could not do it, or not in that time.
        """
        number = uuid.uuid4().hex
        path = self._request_path(run)
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"id": number, **request}))
        part.replace(path)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = _read(self._path(run))
            if now is None or not now.alive:
                raise FlowError(f"{run.name} ended before it was done")
            if now.outcome is not None and now.outcome[0] == number:
                if now.outcome[1] is not None:
                    raise FlowError(now.outcome[1])
                return
            time.sleep(_POLL_SECONDS)
        path.unlink(missing_ok=True)
        raise FlowError(f"{run.name} did not do it in {seconds:g} s")

    def restart(self, run: Run) -> None:
        """Ask a flow to stop its query after a batch, and to start it again over its checkpoint.

        Raises:
            FlowError: the flow could not do it, or not in two minutes.
        """
        self.ask(run, {RESTART: True}, seconds=CHANGE_SECONDS)

    def activate(self, run: Run) -> None:
        """Ask a flow to read again; nothing happens if it does.

        Raises:
            FlowError: the flow could not do it, or not in two minutes.
        """
        self.ask(run, {ACTIVATE: True}, seconds=CHANGE_SECONDS)

    def deactivate(self, run: Run) -> None:
        """Ask a flow to read nothing after the current batch; nothing happens if it does not.

        Raises:
            FlowError: the flow could not do it, or not in two minutes.
        """
        self.ask(run, {DEACTIVATE: True}, seconds=CHANGE_SECONDS)

    def rebalance(
        self, run: Run, parallelism: Mapping[str, int], partitions: int | None = None
    ) -> None:
        """Ask a flow to continue with other numbers of tasks and partitions.

        Raises:
            FlowError: the flow could not do it, or not in two minutes.
        """
        request = {"parallelism": dict(parallelism), "partitions": partitions}
        self.ask(run, request, seconds=CHANGE_SECONDS)

    def take_request(self, run: Run) -> dict[str, Any] | None:
        """Return the request that waits for this run, and remove it."""
        path = self._request_path(run)
        request = _json(path)
        if request is not None:
            path.unlink(missing_ok=True)
        return request

    def answer(self, run: Run, request: Mapping[str, Any], problem: str | None) -> Run:
        """Write the outcome of a request, and return the run with it."""
        answered = replace(run, outcome=(str(request.get("id")), problem))
        self.write(answered)
        return answered

    def _path(self, run: Run) -> Path:
        return self.folder / f"{re.sub('[^A-Za-z0-9_.-]', '_', run.name)[:100]}-{run.pid}.json"

    def _request_path(self, run: Run) -> Path:
        return self._path(run).with_suffix(".request")


def default_folder() -> Path:
    """Return the folder of the environment, or one below the user's state folder."""
    configured = os.environ.get(FOLDER_VARIABLE)
    if configured:
        return Path(configured)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "headrace" / "flows"


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in the kernel's ticks since boot; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The process name, in brackets, may contain anything; numbers and one letter follow it.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _json(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _read(path: Path) -> Run | None:
    """Return the run of a file; None if the file is damaged or of another version."""
    attributes = _json(path)
    try:
        if attributes is None:
            return None
        outcome = attributes.pop("outcome", None)
        return Run(**attributes, outcome=tuple(outcome) if outcome else None)
    except TypeError:
        return None
