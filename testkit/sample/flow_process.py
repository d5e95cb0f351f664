"""A topology in a process of its own, started with `headrace flow run` as a user does."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.process.die_with_parent import die_with_parent
from testkit.peer.spark_session import quiet_config, spark_environment

_PROGRAM = """
from headrace.flow.storm import TopicSink, TopicSpout, Topology

def shout(line: str) -> str:
    return line.upper()

def topology(brokers: str, name: str, source: str, target: str) -> Topology:
    topology = Topology(name, dead_letters=None)
    topology.spout("lines", TopicSpout(source, brokers=brokers, fields="value STRING"))
    topology.bolt("shout", shout, output="word STRING").shuffle("lines")
    topology.sink("out", TopicSink(target, value="word")).shuffle("shout")
    return topology
"""


class FlowProcess:
    """Writes every record of one topic in capitals to another.

    The process is started at once. A test waits for the effects that it needs.

    Args:
        flows: the folder of running flows.
    """

    def __init__(
        self, folder: Path, flows: Path, *, brokers: str, name: str, source: str, target: str
    ) -> None:
        self.name = name
        self._log = folder / "flow.log"
        program = folder / "shout.py"
        program.write_text(_PROGRAM)
        arguments = {"name": name, "source": source, "target": target, **quiet_config(folder)}
        command = [sys.executable, "-m", "headrace.cli.main", "flow", "run", str(program)]
        command += ["--master", "local[1]", "-b", brokers]
        command += [f"-X{key}={value}" for key, value in arguments.items()]
        with self._log.open("w") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **spark_environment(), FOLDER_VARIABLE: str(flows)},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """What it has printed."""
        return self._log.read_text()

    def ended(self, seconds: float) -> int:
        """Wait until it has ended, and return its exit code."""
        return self._process.wait(seconds)

    def __enter__(self) -> "FlowProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.running:
            self._process.kill()
        self._process.wait()
