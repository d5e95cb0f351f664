"""Workers of the Kinesis Client Library, each in a Java of its own, and what they processed."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from testkit.peer.java import SHORT_RUN, Java, find_java
from testkit.peer.java_process import JavaProcess
from testkit.peer.kcl_jars import KCL_JARS

_COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
_MAIN_CLASS = "software.amazon.kinesis.coordinator.KclWorker"


@dataclass(frozen=True, slots=True)
class KclProgram:
    """The compiled program that all workers run."""

    java: Java
    classpath: str

    @classmethod
    def compile(cls, source: Path, folder: Path) -> "KclProgram":
        """Compile it once: every Java that runs a source file would do it again.

        Raises:
            PeerMissing: the library is not fetched, or there is no Java.
        """
        jars, java = KCL_JARS.find(), find_java()
        command = [str(java.path), *SHORT_RUN, "-m", _COMPILER, "-proc:none"]
        every = ":".join(map(str, jars.folder.glob("*.jar")))  # no star for the compiler
        command += ["-cp", every, "-d", str(folder), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return cls(java, f"{folder}:{jars.classpath}")


class KclWorker(JavaProcess):
    """Runs until it is killed. It keeps its leases, and the positions it reached, in DynamoDB."""

    NAME = "KCL"
    START_SECONDS = 120.0

    def __init__(self, folder: Path, program: KclProgram, arguments: Sequence[str]) -> None:
        super().__init__(folder)
        self._program = program
        self._arguments = arguments

    def _command(self) -> Sequence[str]:
        options = [*SHORT_RUN, "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return self._program.java.command(
            _MAIN_CLASS, self._arguments, classpath=self._program.classpath, options=options
        )

    def _is_up(self) -> bool:
        return "starts" in self.log


class Processed(NamedTuple):
    """One line of what the workers wrote."""

    what: str
    worker: str
    shard: str
    key: str = ""
    number: int = -1


class ProcessedLog:
    """The file that all workers append to, read as it grows."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path = path
        self._read = 0
        self._rows: list[Processed] = []

    def rows(self) -> list[Processed]:
        """Return its complete lines, in their order."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.decode().splitlines():
            what, worker, shard, *record = line.split()
            key, number = record or ("", -1)
            self._rows.append(Processed(what, worker, shard, key, int(number)))
        return self._rows
