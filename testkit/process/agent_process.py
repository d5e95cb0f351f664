"""`headrace agent run` in a process of its own: started, stopped, and killed."""

import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from headrace.process.child import die_with_parent
from headrace.testing.readiness import wait_until

_SECONDS = 60.0


class AgentProcess:
    """Agent `a1` of a configuration; killed, it starts again on what it left.

    Example:
        with AgentProcess(tmp_path, "a1.sources = ...") as agent:
            agent.kill()
            agent.start()
    """

    def __init__(self, folder: Path, configuration: str) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "agent.conf").write_text(configuration)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self._folder / "agent.log").read_text(errors="replace")

    def start(self) -> None:
        """Return when it says that it runs."""
        with (self._folder / "agent.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "headrace.cli.main"),
                    *("agent", "run", "--conf", str(self._folder / "agent.conf")),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        process = self._process
        wait_until(
            lambda: "Agent a1 runs" in self.log or process.poll() is not None,
            what="the start of the agent",
            timeout_seconds=_SECONDS,
        )
        assert process.poll() is None, self.log

    def kill(self) -> None:
        """SIGKILL, as a crash of the process. Harmless when not running."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(_SECONDS)

    def __enter__(self) -> "AgentProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
