"""A real Spark standalone cluster on loopback, from the PySpark wheel: a master and workers."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import pyspark

from headrace.process.child import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.peer.java import SHORT_RUN, find_java
from testkit.process.server_process import ServerFailed
from testkit.process.spark_session import spark_environment

_MASTER = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
_REGISTERED = "Successfully registered with master"
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_LOG_LINES = 40
# What an executor may have, and so a worker: Spark takes no executor of less than 450 MiB.
EXECUTOR_MEMORY = "512m"


class SparkDaemon:
    """One process of the cluster. It dies with the thread that started it."""

    def __init__(self, folder: Path, main_class: str, arguments: list[str]) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.log = folder / "daemon.log"
        self._name = main_class.rpartition(".")[2]
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(spark_class), main_class, "--host", "127.0.0.1", *arguments],
                cwd=folder,
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def wait_for(self, text: re.Pattern[str] | str) -> re.Match[str]:
        """Return when the log has `text`.

        Raises:
            ServerFailed: with the last lines of its log.
        """

        def found() -> re.Match[str] | None:
            return re.search(text, self._output())

        def found_or_ended() -> bool:
            return found() is not None or self._process.poll() is not None

        try:
            wait_until(found_or_ended, what="the start", timeout_seconds=_START_SECONDS)
        except TimeoutError:
            raise self._failed("did not start in time") from None
        match = found()
        if match is None:
            raise self._failed(f"ended with {self._process.returncode} while it started")
        return match

    def stop(self) -> None:
        """End it, and with a worker the executors that it has started."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _output(self) -> str:
        return self.log.read_text(errors="replace")

    def _failed(self, what: str) -> ServerFailed:
        lines = self._output().splitlines()[-_LOG_LINES:]
        return ServerFailed(f"Spark's {self._name} {what}:\n" + "\n".join(lines))


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
            )
            started.callback(master.stop)
            self.url = master.wait_for(_MASTER).group(1)
            workers = [self._worker(number) for number in range(self._count)]
            for worker in workers:
                started.callback(worker.stop)
            for worker in workers:
                worker.wait_for(_REGISTERED)
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
        """How many executors the workers have run so far."""
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
