"""Runs a Spark program in one driver after the other; each but the last is killed with SIGKILL."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.peer.spark_driver import run_driver
from testkit.peer.spark_session import spark_environment

START_SECONDS = 300.0
"""How long a driver may take to make progress, on a busy machine."""

_LOG_CHARACTERS = 4_000


class KillableDriver:
    """Drivers of one program, whose queries have their checkpoints in `folder`, under their names.

    Args:
        script: the program; it gets `task` as with `run_driver`.
    """

    def __init__(self, script: Path, task: Mapping[str, Any], folder: Path) -> None:
        self._script, self._task, self._folder = script, dict(task), folder
        self._count = 0
        self._log = folder
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run a driver; at the end kill it, with its Java process and Python workers."""
        self._count += 1
        self._log = self._folder / f"driver-{self._count}.log"
        with self._log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, str(self._script), json.dumps(self._task)],
                env={**os.environ, **spark_environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
        self._process = process
        try:
            yield
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(START_SECONDS)

    def finish(self) -> Any:
        """Run a driver to its end and return its result."""
        return run_driver(self._script, self._task, timeout_seconds=2 * START_SECONDS)

    def noted(self, query: str, log: str) -> int:
        """Return how many batches Spark has begun (`offsets`) or finished (`commits`)."""
        names = (path.name for path in (self._folder / query / log).glob("*"))
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def wait_for(self, what: str, condition: Any) -> None:
        """Wait until a condition holds, while the driver runs.

        Raises:
            AssertionError: the driver has ended first.
        """
        process = self._process
        assert process is not None

        def holds() -> bool:
            ended = process.poll() is not None
            if bool(condition()):
                return True
            assert not ended, self._log.read_text(errors="replace")[-_LOG_CHARACTERS:]
            return False

        wait_until(holds, what=what, timeout_seconds=START_SECONDS)
