"""The demo's broker: `headrace up` in a process of its own, on a free port of loopback."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from headrace.model.error import HeadraceError
from headrace.process.child import die_with_parent

_ADDRESS = re.compile(rb"listens on .*?(127\.0\.0\.1:\d+)")
_START_SECONDS = 30.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02


class BrokerFailed(HeadraceError):
    """The broker did not start; the message ends with what it said."""


class BrokerChild:
    """Runs while the context is open, and never longer than this process.

    It has a session of its own: Ctrl-C reaches only us, and we stop it last.

    Example:
        with BrokerChild(folder) as broker:
            Producer({"bootstrap.servers": broker.address})
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / "broker.log"
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ""

    def __enter__(self) -> "BrokerChild":
        command = [sys.executable, "-m", "headrace.cli.main", "up"]
        arguments = ["--listen", "127.0.0.1:0", "--data", str(self._data)]
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [*command, *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        try:
            self.address = self._wait_for_address()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        return self

    def _wait_for_address(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            found = _ADDRESS.search(self.log.read_bytes())
            if found is not None:
                return found.group(1).decode()
            if self._process.poll() is not None:
                break
            time.sleep(_POLL_SECONDS)
        said = self.log.read_text(errors="replace").strip() or "nothing"
        raise BrokerFailed(f"the broker did not start; it said: {said[-2_000:]}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
