"""A real Apache Flume agent, in a process of its own."""

from collections.abc import Sequence
from pathlib import Path

from testkit.peer.flume_jars import FLUME_JARS
from testkit.peer.java import SHORT_RUN, find_java
from testkit.peer.java_process import JavaProcess

_LOGGING = """\
status = error
appender.c.type = Console
appender.c.name = c
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %p %c{1} %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.c.ref = c
"""


class FlumeAgent(JavaProcess):
    """Runs a Flume configuration as agent `a1` until the block ends.

    Example:
        with FlumeAgent(tmp_path, "a1.sources = r1 ...", started=["r1"]):
            ...

    Args:
        started: names of components that must have started before the block begins.
        options: for Java; by default those of a short run.
    """

    NAME = "Flume"
    START_SECONDS = 180.0
    STOP_SECONDS = 3.0  # its Netty takes twenty to say good-bye

    def __init__(
        self,
        folder: Path,
        configuration: str,
        started: Sequence[str],
        options: Sequence[str] = SHORT_RUN,
    ) -> None:
        super().__init__(folder)
        self._configuration = configuration
        self._started = started
        self._options = options

    def _command(self) -> Sequence[str]:
        configuration = self.folder / "flume.conf"
        configuration.write_text(self._configuration)
        logging = self.folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        return find_java().command(
            "org.apache.flume.node.Application",
            ["-n", "a1", "-f", str(configuration), "--no-reload-conf"],
            classpath=FLUME_JARS.find().classpath,
            options=[*self._options, f"-Dlog4j.configurationFile={logging}"],
        )

    def _is_up(self) -> bool:
        log = self.log
        return all(f"name: {name} started" in log for name in self._started)
