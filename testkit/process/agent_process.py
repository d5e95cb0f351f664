"""`headrace agent run` in a process of its own: started, stopped, and killed."""

import sys
from pathlib import Path

from testkit.process.child_process import ChildProcess

_START_SECONDS = 240.0


class AgentProcess(ChildProcess):
    """Agent `a1` of a configuration; killed, it starts again with what it left.

    Example:
        with AgentProcess(tmp_path, "a1.sources = ...") as agent:
            agent.kill()
            agent.start()
    """

    NAME = "agent"

    def __init__(self, folder: Path, configuration: str) -> None:
        super().__init__(folder, "agent.log")
        folder.mkdir(parents=True, exist_ok=True)
        self._configuration = folder / "agent.conf"
        self._configuration.write_text(configuration)

    def start(self) -> None:
        """Return when it reports that it runs.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self._begin_log()
        self._launch(
            [
                *(sys.executable, "-m", "headrace.cli.main"),
                *("agent", "run", "--conf", str(self._configuration)),
            ],
            lambda: "Agent a1 runs" in self.log,
            seconds=_START_SECONDS,
        )
