"""The flows that run on this machine: one small JSON file per flow, in a folder of the user.

Rule 1: a file belongs to the process with its pid and start time. A crash leaves the file behind.
        It is stale if no process has both; the next reader of the folder removes it.
Rule 2: a file is replaced as a whole, so that a reader never sees half of one. Every writer has a
        temporary file of its own.
Rule 3: a command that asks something of a flow writes a request beside its file. Every request has
        a file of its own, and says which process it is for. The flow removes the request and writes
        the outcome into its own file. Only the flow writes its file.
Rule 4: the command that asks removes its request when it stops waiting, so that nothing is done
        later that was reported as failed.
"""

import json
import os
import re
import secrets
import signal
import time
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
MAX_NAME_LENGTH = 300
MAX_NAMES = 1000
MAX_COUNT = 10_000
_MAX_BYTES = 1 << 20
_MAX_REQUEST_BYTES = _MAX_BYTES // 2
_MAX_WAITING = 16
_MAX_OUTCOMES = 2 * _MAX_WAITING
_MAX_PROBLEM_LENGTH = 1000
_POLL_SECONDS = 0.1
_PID = re.compile(r"-(\d+)\.json")
_ID_PATTERN = "[0-9a-f]" * 32


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
        outcomes: the ids of the last requests, and why each failed or None, the newest last.
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
    outcomes: tuple[tuple[str, str | None], ...] = ()

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
            if run is not None and run.alive:
                alive.append(run)
            elif run is not None or _is_left_behind(path):
                self._remove(path)
        return sorted(alive, key=lambda each: each.started_ms)

    def run_of(self, pid: int, name: str) -> Run | None:
        """Return the run of a process, if it has one; other files are left alone."""
        for path in self.folder.glob(f"*-{pid}.json"):
            run = _read(path)
            if run is not None and (run.pid, run.name) == (pid, name) and run.alive:
                return run
        return None

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
            FlowError: a run that is alive has it, or may have it: its file cannot be read.
        """
        for each in self.runs():
            if each.checkpoint == checkpoint:
                raise FlowError(
                    f"{each.name} runs already over the checkpoint {checkpoint}, with pid"
                    f" {each.pid}: stop it first, or give another --checkpoint"
                )
        for path in sorted(self.folder.glob("*.json")):
            pid = _pid_in(path)
            if pid in (None, os.getpid()) or _read(path) is not None or not path.exists():
                continue
            raise FlowError(
                f"{path} cannot be read, and its process {pid} runs: it may use the checkpoint"
                f" {checkpoint}. Stop that process first, or remove the file if it is no flow"
            )

    def write(self, run: Run) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._replace(run, ".json", json.dumps(asdict(run)))

    def remove(self, run: Run) -> None:
        self._remove(self._path(run))

    def ask(self, run: Run, request: Mapping[str, Any], *, seconds: float) -> None:
        """Send a request to a flow, and wait until it is done.

        Raises:
            FlowError: the flow could not do it, or not in that time.
        """
        # The time comes first: requests are carried out in their order.
        number = f"{time.time_ns():016x}{secrets.token_hex(8)}"
        text = json.dumps({"id": number, "started_ticks": run.started_ticks, **request})
        if len(text) > _MAX_REQUEST_BYTES:
            raise FlowError(f"a request to {run.name} has at most {_MAX_REQUEST_BYTES} bytes")
        if len(self._requests(self._path(run))) >= _MAX_WAITING:
            raise FlowError(f"{_MAX_WAITING} requests to {run.name} wait already: try again later")
        suffix = f".{number}.request"
        try:
            self._replace(run, suffix, text)
            self._wait(run, number, seconds)
        except FileNotFoundError:
            raise FlowError(f"{run.name} ended before it was done") from None
        finally:
            self._path(run).with_suffix(suffix).unlink(missing_ok=True)

    def _wait(self, run: Run, number: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = _read(self._path(run))
            if now is None or not now.alive or now.started_ticks != run.started_ticks:
                raise FlowError(f"{run.name} ended before it was done")
            outcomes = dict(now.outcomes)
            if number in outcomes:
                problem = outcomes[number]
                if problem is not None:
                    raise FlowError(problem)
                return
            time.sleep(_POLL_SECONDS)
        raise FlowError(f"{run.name} did not do it in {seconds:g} s")

    def restart(self, run: Run) -> None:
        """Ask a flow to stop its query after a batch, and to start it again over its checkpoint.

        Raises:
            FlowError: the flow could not do it, or not in two minutes.
        """
        self.ask(run, {RESTART: True}, seconds=CHANGE_SECONDS)

    def stop(self, run: Run, *, now: bool = False) -> None:
        """Let a flow end after its current batch; a second stop has no effect.

        Args:
            now: interrupt the batch.

        Raises:
            FlowError: it has ended.
        """
        asked = self._path(run).with_suffix(f".{run.started_ticks:032x}.stop")
        try:
            # A second signal would interrupt the batch.
            asked.touch(exist_ok=False, mode=0o600)
        except FileExistsError:
            if not now:
                return
        try:
            for _ in range(2 if now else 1):
                if not run.alive:
                    raise ProcessLookupError
                os.kill(run.pid, signal.SIGTERM)
        except ProcessLookupError:
            asked.unlink(missing_ok=True)
            raise FlowError(f"{run.name} has ended already") from None
        except BaseException:
            asked.unlink(missing_ok=True)
            raise

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
            FlowError: the flow could not do it, or not in two minutes; or there are too many names,
                or one that no component can have.
        """
        if len(parallelism) > MAX_NAMES:
            raise FlowError(f"{len(parallelism)} components are too many: at most {MAX_NAMES}")
        most = max((*parallelism.values(), partitions or 0))
        if most > MAX_COUNT:
            raise FlowError(f"{most} tasks or partitions are too many: at most {MAX_COUNT}")
        for each in parallelism:
            if len(each) > MAX_NAME_LENGTH:
                raise FlowError(f"{run.name} has no component {each[:40]}...: that is too long")
        request = {"parallelism": dict(parallelism), "partitions": partitions}
        self.ask(run, request, seconds=CHANGE_SECONDS)

    def take_request(self, run: Run) -> dict[str, Any] | None:
        """Return the oldest request that waits for this run, and remove it."""
        for path in self._requests(self._path(run)):
            request = _json(path)
            path.unlink(missing_ok=True)
            # Other requests were for an earlier process with this pid.
            if request is not None and request.pop("started_ticks", None) == run.started_ticks:
                return request
        return None

    def drop_requests(self, run: Run) -> None:
        """Remove what was asked of an earlier run with this name and pid."""
        for path in self._requests(self._path(run)):
            path.unlink(missing_ok=True)

    def answer(self, run: Run, request: Mapping[str, Any], problem: str | None) -> Run:
        """Write the outcome of a request, and return the run with it."""
        if problem is not None:
            problem = problem[:_MAX_PROBLEM_LENGTH]
        outcomes = (*run.outcomes, (str(request.get("id")), problem))[-_MAX_OUTCOMES:]
        answered = replace(run, outcomes=outcomes)
        self.write(answered)
        return answered

    def _path(self, run: Run) -> Path:
        return self.folder / f"{re.sub('[^A-Za-z0-9_.-]', '_', run.name)[:100]}-{run.pid}.json"

    def _requests(self, path: Path) -> list[Path]:
        """Return the requests beside the file of a run, the oldest first."""
        return sorted(self.folder.glob(f"{path.stem}.{_ID_PATTERN}.request"))

    def _replace(self, run: Run, suffix: str, text: str) -> None:
        path = self._path(run)
        part = path.with_suffix(f".{secrets.token_hex(16)}.part")
        try:
            part.write_text(text)
            part.replace(path.with_suffix(suffix))
        finally:
            part.unlink(missing_ok=True)

    def _remove(self, path: Path) -> None:
        """Remove the file of a run, and what lies beside it."""
        path.unlink(missing_ok=True)
        for each in self.folder.glob(f"{path.stem}.{_ID_PATTERN}.*"):
            each.unlink(missing_ok=True)


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
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _pid_in(path: Path) -> int | None:
    """Return the pid in the name of a run's file, if a process has it."""
    found = _PID.search(path.name)
    pid = None if found is None else int(found[1])
    return None if pid is None or start_ticks(pid) is None else pid


def _is_left_behind(path: Path) -> bool:
    """Return whether a file that cannot be read has the name of a process that ended."""
    return _PID.search(path.name) is not None and _pid_in(path) is None


def _read(path: Path) -> Run | None:
    """Return the run of a file; None if the file is damaged or of another version."""
    attributes = _json(path)
    try:
        if attributes is None:
            return None
        outcomes = attributes.pop("outcomes", ())
        return Run(**attributes, outcomes=tuple((number, why) for number, why in outcomes))
    except (TypeError, ValueError):
        return None
