"""A Headrace broker in a process of its own, for tests and benchmarks: `headrace up`."""

import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from headrace.model.error import HeadraceError, InvalidArgument
from headrace.testing.process_usage import ProcessUsage
from headrace.testing.readiness import answers_kafka, wait_until

_HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_ADDRESS = re.compile(r"listens on .*?127\.0\.0\.1:(\d+)")
_ADMIN = re.compile(r"metrics on (http://[^/]+)/metrics")

# Few internal partitions, no waiting for group members: tests start and rebalance at once.
FOR_TESTS: Mapping[str, str] = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
}


class BrokerFailed(HeadraceError):
    """The broker did not start, or did not stop; the message ends with its last log lines."""


class BrokerProcess:
    """`headrace up` on loopback and a free port; killed or stopped, it starts again on its data.

    Example:
        with BrokerProcess(tmp_path / "broker") as broker:
            Producer({"bootstrap.servers": broker.address})
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = dict(FOR_TESTS if settings is None else settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"

    @property
    def address(self) -> str:
        if self._process is None:
            raise InvalidArgument(f"the broker in {self.folder} does not run: start() it first")
        return f"{_HOST}:{self._port}"

    @property
    def admin_url(self) -> str:
        """Where /healthz, /readyz and /metrics are."""
        found = _ADMIN.search(self._output())
        if found is None:
            raise InvalidArgument(f"the broker in {self.folder} has no admin port")
        return found.group(1)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise InvalidArgument(f"the broker in {self.folder} does not run: start() it first")
        return self._process.pid

    def usage(self) -> ProcessUsage:
        """What the process has cost since it started."""
        return ProcessUsage.of(self.pid)

    def start(self) -> None:
        """Return when the broker answers. The port stays the same over restarts.

        Raises:
            BrokerFailed: with the last lines of its log.
        """
        if self._process is not None:
            raise InvalidArgument(f"the broker in {self.folder} runs already: stop() it first")
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = [f"-X{key}={value}" for key, value in self.settings.items()]
        # The listener is an option only if the settings do not say more about it.
        if "listeners" not in self.settings:
            settings += ["--listen", f"{_HOST}:{self._port}"]
        self.log_file.write_bytes(b"")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [
                    *(sys.executable, "-m", "headrace.cli.main"),
                    *("up", "--data", str(self.data), *settings),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_for_answer(self._process)

    def _wait_for_answer(self, process: "subprocess.Popen[bytes]") -> None:
        def answers_or_ended() -> bool:
            if process.poll() is not None:
                return True
            found = _ADDRESS.search(self._output())
            if found is None:
                return False
            self._port = int(found.group(1))
            return answers_kafka(_HOST, self._port)

        try:
            wait_until(answers_or_ended, what="the start", timeout_seconds=_START_SECONDS)
        except TimeoutError:
            self.kill()
            raise self._failed(f"did not answer in {_START_SECONDS:g} s") from None
        if process.poll() is not None:
            self._process = None
            raise self._failed(f"ended with {process.returncode} while it started")

    def stop(self, *signals: int) -> int:
        """Stop cleanly, with SIGTERM or the signals given; the exit code. Harmless when not
        running."""
        process, self._process = self._process, None
        if process is None:
            return 0
        for number in signals or (signal.SIGTERM,):
            process.send_signal(number)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self._failed(f"did not stop in {_STOP_SECONDS:g} s and was killed") from None

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does. Harmless when not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self) -> "BrokerProcess":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()

    def _output(self) -> str:
        return self.log_file.read_text(errors="replace")

    def _failed(self, what: str) -> BrokerFailed:
        lines = self._output().splitlines()[-40:]
        return BrokerFailed(f"the broker in {self.folder} {what}:\n" + "\n".join(lines))
