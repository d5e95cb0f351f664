"""Which flows run on this machine: one small JSON file for each, in a folder of the user's.

Rule 1: a file belongs to the process that its pid and start time name. A crash leaves the file
        behind; it is then known to be stale, because no process has both, and removed by whoever
        looks next.
Rule 2: a file is replaced as a whole, so that a reader never sees half of one.
Rule 3: who wants something of a flow puts a request beside its file; the flow takes it away and
        tells the outcome in its own file. Nobody but the flow writes its file.
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
RESTART_SECONDS = 120.0
_MAX_BYTES = 1 << 20
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One flow that runs.

    Attributes:
        started_ticks: when the kernel says that the process began; with the pid it is unique.
        program: what was run, as it was written.
        console: the address of Spark's own pages, if they are on.
        metrics: where its figures are served, as an address for HTTP.
        graph: what `headrace.flow.plan.graph.Graph.to_json` gave.
        outcome: of the last request: its id, and what was wrong with it or None.
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
    outcome: tuple[str, str | None] | None = None

    @property
    def alive(self) -> bool:
        return start_ticks(self.pid) == self.started_ticks


def this_run(**told: Any) -> Run:
    """The run of this process."""
    return Run(
        pid=os.getpid(),
        started_ticks=start_ticks(os.getpid()) or 0,
        started_ms=time.time_ns() // 1_000_000,
        **told,
    )


class Registry:
    """The folder. By default that of `$HEADRACE_FLOWS`, or one below the user's state folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or default_folder()

    def runs(self) -> list[Run]:
        """Those that are alive, the oldest first. What is left of others is removed."""
        found = []
        for path in sorted(self.folder.glob("*.json")):
            run = _read(path)
            if run is None:
                continue
            if run.alive:
                found.append(run)
            else:
                path.unlink(missing_ok=True)
                self._request_path(run).unlink(missing_ok=True)
        return sorted(found, key=lambda each: each.started_ms)

    def find(self, name: str) -> Run:
        """The run with this name, or with this pid.

        Raises:
            FlowError: there is none, or there are several.
        """
        runs = self.runs()
        found = [each for each in runs if name in (each.name, str(each.pid))]
        if len(found) == 1:
            return found[0]
        if found:
            pids = ", ".join(str(each.pid) for each in found)
            raise FlowError(f"several flows called {name} run: choose one by its pid, {pids}")
        names = ", ".join(each.name for each in runs)
        there = f"there are {names}" if names else "none runs on this machine"
        raise FlowError(f"no flow called {name} runs: {there}")

    def check_free(self, checkpoint: str) -> None:
        """Two queries over one checkpoint would spoil it.

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
        """Ask a flow for something, and wait until it is done.

        Raises:
            FlowError: it cannot be done, or was not in that time.
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

    def restart(self, run: Run, *, seconds: float = RESTART_SECONDS) -> None:
        """Let a flow stop its query after a batch, and start it again over its checkpoint.

        Raises:
            FlowError: it could not, or not in that time.
        """
        self.ask(run, {RESTART: True}, seconds=seconds)

    def take_request(self, run: Run) -> dict[str, Any] | None:
        """What somebody asked of this run, once."""
        path = self._request_path(run)
        asked = _json(path)
        if asked is not None:
            path.unlink(missing_ok=True)
        return asked

    def answer(self, run: Run, request: Mapping[str, Any], problem: str | None) -> Run:
        """Tell what came of a request; the run with the outcome."""
        told = replace(run, outcome=(str(request.get("id")), problem))
        self.write(told)
        return told

    def _path(self, run: Run) -> Path:
        return self.folder / f"{re.sub('[^A-Za-z0-9_.-]', '_', run.name)[:100]}-{run.pid}.json"

    def _request_path(self, run: Run) -> Path:
        return self._path(run).with_suffix(".request")


def default_folder() -> Path:
    told = os.environ.get(FOLDER_VARIABLE)
    if told:
        return Path(told)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "headrace" / "flows"


def start_ticks(pid: int) -> int | None:
    """When a process began, in the kernel's ticks since boot; None: there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may hold anything; what follows it are numbers and one letter.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _json(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _read(path: Path) -> Run | None:
    """A run; None for a file that is none: of another version, or damaged."""
    found = _json(path)
    try:
        if found is None:
            return None
        outcome = found.pop("outcome", None)
        return Run(**found, outcome=tuple(outcome) if outcome else None)
    except TypeError:
        return None
