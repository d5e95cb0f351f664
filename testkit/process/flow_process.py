"""A topology under `headrace flow run`, as a user starts it: a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from headrace.flow.monitoring.registry import FOLDER_VARIABLE
from headrace.process.child import die_with_parent
from testkit.process.spark_session import quiet_config, spark_environment

_PROGRAM = """
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

def shout(line: str) -> str:
    return line.upper()

def topology(brokers: str, name: str, source: str, target: str) -> Topology:
    made = Topology(name, dead_letters=None)
    made.spout("lines", TopicSpout(source, brokers=brokers, fields="value STRING"))
    made.bolt("shout", shout, output="word STRING").shuffle("lines")
    made.sink("out", TopicSink(target, value="word")).shuffle("shout")
    return made
"""


class FlowProcess:
    """Started at once; whoever needs it waits for what it does. It writes every record of one topic
    in capitals to another.

    Args:
        flows: the folder of its registration.
    """

    def __init__(
        self, folder: Path, flows: Path, *, brokers: str, name: str, source: str, target: str
    ) -> None:
        self.name = name
        self._log = folder / "flow.log"
        program = folder / "shout.py"
        program.write_text(_PROGRAM)
        told = {"name": name, "source": source, "target": target, **quiet_config(folder)}
        command = [sys.executable, "-m", "headrace.cli.main", "flow", "run", str(program)]
        command += ["--master", "local[1]", "-b", brokers]
        command += [f"-X{key}={value}" for key, value in told.items()]
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
        return self._log.read_text()

    def ended(self, seconds: float) -> int:
        """Its exit code, once it has ended."""
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
