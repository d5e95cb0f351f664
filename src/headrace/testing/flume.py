"""A real Apache Flume agent, in a process of its own."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from headrace.model.error import HeadraceError
from headrace.process.child import die_with_parent
from headrace.testing.flume_jars import flume_jars
from headrace.testing.java import SHORT_RUN, find_java
from headrace.testing.process_usage import ProcessUsage
from headrace.testing.readiness import wait_until

_START_SECONDS = 60.0
_STOP_SECONDS = 3.0  # its Netty takes twenty to say good-bye
_LOGGING = """\
status = error
appender.c.type = Console
appender.c.name = c
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %p %c{1} %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.c.ref = c
"""


class FlumeFailed(HeadraceError):
    """It did not start; the message ends with the last lines of its log."""


class FlumeAgent:
    """Runs a Flume configuration as agent `a1` until the block ends.

    Example:
        with FlumeAgent(tmp_path, "a1.sources = r1 ...", started=["r1"]):
            ...

    Args:
        started: names of components that must have started before the block begins.
        options: for Java; by default those of a short run.
    """

    def __init__(
        self,
        folder: Path,
        configuration: str,
        started: Sequence[str],
        options: Sequence[str] = SHORT_RUN,
    ) -> None:
        self._folder = folder
        self._configuration = configuration
        self._started = started
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self._folder / "flume.log").read_text(errors="replace")

    def usage(self) -> ProcessUsage:
        """What the process has cost since it started."""
        assert self._process is not None
        return ProcessUsage.of(self._process.pid)

    def __enter__(self) -> "FlumeAgent":
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "flume.conf").write_text(self._configuration)
        (self._folder / "log4j2.properties").write_text(_LOGGING)
        command = find_java().command(
            "org.apache.flume.node.Application",
            ["-n", "a1", "-f", str(self._folder / "flume.conf"), "--no-reload-conf"],
            classpath=flume_jars().classpath,
            options=[
                *self._options,
                f"-Dlog4j.configurationFile={self._folder / 'log4j2.properties'}",
            ],
        )
        with (self._folder / "flume.log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a command of the tests' own
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        try:
            wait_until(self._is_up, what="the start of Flume", timeout_seconds=_START_SECONDS)
        except BaseException as error:
            self._end()
            lines = "\n".join(self.log.splitlines()[-40:])
            raise FlumeFailed(f"Flume did not start ({error}):\n{lines}") from error
        return self

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise FlumeFailed(f"it ended with {self._process.returncode}")
        log = self.log
        return all(f"name: {name} started" in log for name in self._started)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
