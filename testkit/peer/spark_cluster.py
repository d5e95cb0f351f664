"""A real Spark standalone cluster on loopback, from the PySpark wheel: a master and workers."""

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pyspark

from testkit.peer.java import SHORT_RUN, find_java
from testkit.peer.spark_session import spark_environment
from testkit.process.child_process import ChildProcess

_MASTER = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
_REGISTERED = re.compile("Successfully registered with master")
_START_SECONDS = 90.0
# What an executor may have, and so a worker: Spark takes no executor of less than 450 MiB.
EXECUTOR_MEMORY = "512m"


class SparkDaemon(ChildProcess):
    """One process of the cluster: up when its log has `ready`."""

    def __init__(
        self, folder: Path, main_class: str, arguments: list[str], ready: re.Pattern[str]
    ) -> None:
        super().__init__(folder, "daemon.log")
        self.NAME = f"Spark's {main_class.rpartition('.')[2]}"
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        self._command = [str(spark_class), main_class, "--host", "127.0.0.1", *arguments]
        self._ready = ready

    def start(self) -> None:
        """Return when it is up.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self.folder.mkdir(parents=True)
        self._launch(
            self._command,
            lambda: self._ready.search(self.log) is not None,
            seconds=_START_SECONDS,
            cwd=self.folder,
            environment=_environment(self.folder),
        )

    def ready_line(self) -> re.Match[str]:
        """Return what `ready` matched in the log of a daemon that is up."""
        match = self._ready.search(self.log)
        assert match is not None
        return match


class SparkCluster:
    """A master and workers of one core each; drivers connect to `url`.

    A process has only one Spark session, so tests send a driver of its own here (`run_driver`).

    Example:
        with SparkCluster(tmp_path / "spark") as cluster:
            run_driver(script, cluster.url)
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.url = ""
        self._count = workers
        self._daemons = ExitStack()

    def __enter__(self) -> "SparkCluster":
        find_java()
        with ExitStack() as started:
            master = SparkDaemon(
                self.folder / "master",
                "org.apache.spark.deploy.master.Master",
                ["--port", "0", "--webui-port", "0"],
                _MASTER,
            )
            master.start()
            started.callback(master.stop)
            self.url = master.ready_line().group(1)
            for number in range(self._count):
                worker = self._worker(number)
                worker.start()
                started.callback(worker.stop)
            self._daemons = started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._daemons.close()

    def executors(self) -> int:
        """Return how many executors the workers have run so far."""
        return sum(1 for _ in self.folder.glob("worker-*/work/app-*/*/stdout"))

    def _worker(self, number: int) -> SparkDaemon:
        folder = self.folder / f"worker-{number}"
        return SparkDaemon(
            folder,
            "org.apache.spark.deploy.worker.Worker",
            [
                *("--port", "0", "--webui-port", "0"),
                *("--cores", "1", "--memory", EXECUTOR_MEMORY),
                *("--work-dir", str(folder / "work"), self.url),
            ],
            _REGISTERED,
        )


def _environment(folder: Path) -> dict[str, str]:
    options = [*SHORT_RUN, f"-Djava.io.tmpdir={folder}"]
    return {
        **os.environ,
        **spark_environment(),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
        "SPARK_LOCAL_DIRS": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
    }
