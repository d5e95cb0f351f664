"""A real Spark standalone cluster on loopback, from the PySpark wheel: a master and workers."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType

import pyspark

from testkit.peer.java import find_java
from testkit.peer.spark_archive import spark_java_options
from testkit.peer.spark_session import spark_environment
from testkit.process.child_process import ChildProcess

_MASTER = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
_REGISTERED = re.compile("Successfully registered with master")
_START_SECONDS = 180.0
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

    Workers are machines of their own as far as one machine can show it: each has a folder for the
    files of its executors, and is lost with all of its processes.

    Example:
        with SparkCluster(tmp_path / "spark") as cluster:
            run_driver(script, cluster.url)
            cluster.kill_worker(0)
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.url = ""
        self._workers = [self._worker_folder(number) for number in range(workers)]
        self._daemons: list[SparkDaemon] = []
        self._stack = ExitStack()

    def __enter__(self) -> "SparkCluster":
        find_java()
        with ExitStack() as started:
            started.callback(self._kill_below, self.folder)
            master = SparkDaemon(
                self.folder / "master",
                "org.apache.spark.deploy.master.Master",
                ["--port", "0", "--webui-port", "0"],
                _MASTER,
            )
            master.start()
            started.callback(master.stop)
            self.url = master.ready_line().group(1)
            for folder in self._workers:
                worker = self._worker(folder)
                worker.start()
                started.callback(worker.stop)
                self._daemons.append(worker)
            self._stack = started.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def executors(self, worker: int) -> list[int]:
        """Return the Java processes of a worker's executors."""
        return [pid for pid in _processes_in(self._workers[worker] / "work") if _is_executor(pid)]

    def kill_executor(self, worker: int) -> None:
        """End the executors of a worker, which starts others, with SIGKILL."""
        for pid in self.executors(worker):
            os.kill(pid, signal.SIGKILL)

    def kill_worker(self, worker: int) -> None:
        """End a worker and all that it has started with SIGKILL, as when its machine is lost."""
        self._daemons[worker].kill()
        self._kill_below(self._workers[worker])

    def logs(self) -> str:
        """Return what executors wrote, for the message of a test that failed."""
        parts = []
        for path in sorted(self.folder.glob("worker-*/work/app-*/*/std*")):
            text = path.read_text(errors="replace")
            parts.append(f"--- {path.relative_to(self.folder)}\n{text[-4000:]}")
        return "\n".join(parts)

    def _worker_folder(self, number: int) -> Path:
        return self.folder / f"worker-{number}"

    def _worker(self, folder: Path) -> SparkDaemon:
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

    @staticmethod
    def _kill_below(folder: Path) -> None:
        for pid in _processes_in(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _processes_in(folder: Path) -> Iterator[int]:
    """Yield the processes whose current folder is below this one: an executor has one of its own,
    and its Python workers inherit it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(folder):
                    yield int(entry.name)


def _is_executor(pid: int) -> bool:
    with suppress(OSError):
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _environment(folder: Path) -> dict[str, str]:
    options = [*spark_java_options(), f"-Djava.io.tmpdir={folder}"]
    return {
        **os.environ,
        **spark_environment(),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
        "SPARK_LOCAL_DIRS": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
    }
