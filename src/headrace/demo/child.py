"""The demo's servers: our own commands, each in a process of its own."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from headrace.model.error import HeadraceError
from headrace.process.child import die_with_parent

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02


class ChildFailed(HeadraceError):
    """A server did not start, or ended; the message ends with what it said."""


class Child:
    """`headrace ...`, running while the context is open and never longer than this process.

    It has a session of its own: Ctrl-C reaches only us, and we stop it in our own order.

    Args:
        name: what to call it; its log is named so too.
        ready: what it writes when it is ready; the first group is what it `said`.

    Example:
        with Child("broker", ["up", "--listen", "127.0.0.1:0"], ready, folder) as broker:
            Producer({"bootstrap.servers": broker.said})
    """

    def __init__(self, name: str, arguments: Sequence[str], ready: bytes, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._said: str | None = None
        self._arguments = arguments
        self._ready = re.compile(ready)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Child":
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "headrace.cli.main", *self._arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        return self

    @property
    def said(self) -> str:
        """What it said when it was ready; it is waited for, the first time.

        Raises:
            ChildFailed: it did not start.
        """
        if self._said is None:
            self._said = self._wait()
        return self._said

    def check(self) -> None:
        """Raises:
        ChildFailed: it has ended.
        """
        if self._process is not None and self._process.poll() is not None:
            raise ChildFailed(f"the {self.name} ended; it said: {self._last_words()}")

    def _wait(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            found = self._ready.search(self.log.read_bytes())
            if found is not None:
                return found.group(1).decode()
            if self._process.poll() is not None:
                break
            time.sleep(_POLL_SECONDS)
        raise ChildFailed(f"the {self.name} did not start; it said: {self._last_words()}")

    def _last_words(self) -> str:
        return self.log.read_text(errors="replace").strip()[-2_000:] or "nothing"

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
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
        finally:
            # Also when somebody who waits for us loses patience.
            process.kill()
            process.wait()
