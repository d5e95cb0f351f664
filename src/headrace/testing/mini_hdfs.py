"""A real HDFS of one name node and one data node, in a process of its own."""

import json
import subprocess
from pathlib import Path
from types import TracebackType

from headrace.model.error import HeadraceError
from headrace.process.child import die_with_parent
from headrace.testing.hadoop_jars import hadoop_jars
from headrace.testing.java import SHORT_RUN, find_java
from headrace.testing.readiness import wait_until

_START_SECONDS = 150.0


class HdfsFailed(HeadraceError):
    """It did not start; the message ends with the last lines of its log."""


class MiniHdfs:
    """Hadoop's own cluster for tests, on loopback and a free port, until the block ends.

    Example:
        with MiniHdfs(tmp_path) as hdfs:
            write_to(f"hdfs://{hdfs.address}/folder")
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`host:port` of the name node."""
        return f"127.0.0.1:{json.loads(self._details.read_text())['namenode_port']}"

    @property
    def _details(self) -> Path:
        return self._folder / "details.json"

    @property
    def log(self) -> str:
        return (self._folder / "hdfs.log").read_text(errors="replace")

    def __enter__(self) -> "MiniHdfs":
        settings = {
            "hdfs.minidfs.basedir": self._folder / "data",
            "hadoop.tmp.dir": self._folder / "tmp",
            "hadoop.security.authentication": "simple",
        }
        command = find_java().command(
            "org.apache.hadoop.test.MiniDFSClusterManager",
            [
                *("-format", "-datanodes", "1", "-writeDetails", str(self._details)),
                *(word for key, value in settings.items() for word in ("-D", f"{key}={value}")),
            ],
            classpath=hadoop_jars().classpath,
            options=SHORT_RUN,
        )
        with (self._folder / "hdfs.log").open("wb") as log:
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
            wait_until(self._is_up, what="the start of HDFS", timeout_seconds=_START_SECONDS)
        except BaseException as error:
            self._end()
            lines = "\n".join(self.log.splitlines()[-40:])
            raise HdfsFailed(f"HDFS did not start ({error}):\n{lines}") from error
        return self

    def _is_up(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise HdfsFailed(f"it ended with {self._process.returncode}")
        return self._details.exists() and self._details.read_text().endswith("}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
