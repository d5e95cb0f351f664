"""A process that has imported a command of `headrace` and forks for each start of it.

Most of what a start costs is the import of the program, in every one of the hundreds of processes
that tests start. Here one process imports, and each start is a fork of it: a process of its own,
with its own memory, signals, session and exit code, that is killed like any other.

    python -m testkit.process.fork_server DESCRIPTOR MODULE ...

The descriptor is a socket of packets. A packet asks for one process: its arguments, folder and
environment as JSON, and three descriptors: standard input, standard output with standard error, and
a pipe for what becomes of it: a line with its process id, and later one with its exit code. The
server ends with its parent or when the socket is closed, and so do its forks.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

from headrace.cli.main import main as headrace
from headrace.process.die_with_parent import die_with_parent

MOST_BYTES = 1 << 20
_DESCRIPTORS = 3


class ForkServer:
    """Forks until the other end of `control` is closed."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._reports: dict[int, int] = {}
        self._woken, waking = os.pipe()
        for each in (self._woken, waking):
            os.set_blocking(each, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking)

    def serve(self) -> list[str] | None:
        """Return the arguments of the program in each fork, and None in the server at its end."""
        while True:
            ready, _, _ = select.select([self._control, self._woken], [], [])
            if self._woken in ready:
                self._report_ended()
            if self._control in ready:
                request, descriptors, _, _ = socket.recv_fds(
                    self._control, MOST_BYTES, _DESCRIPTORS
                )
                if not request:
                    self._end_all()
                    return None
                arguments = self._fork(json.loads(request), descriptors)
                if arguments is not None:
                    return arguments

    def _fork(self, request: dict[str, object], descriptors: list[int]) -> list[str] | None:
        pid = os.fork()
        if pid == 0:
            return self._become(request, *descriptors)
        standard_input, output, report = descriptors
        os.close(standard_input)
        os.close(output)
        self._reports[pid] = report
        self._send(report, pid)
        return None

    def _become(
        self, request: dict[str, object], standard_input: int, output: int, _report: int
    ) -> list[str]:
        """Make this fork what a process is that was started alone, and return its arguments."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent()
        os.setsid()
        os.dup2(standard_input, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 1 + max(int(each.name) for each in Path("/proc/self/fd").iterdir()))
        os.chdir(str(request["folder"]))
        environment = request["environment"]
        assert isinstance(environment, dict)
        os.environ.clear()
        os.environ.update(environment)
        arguments = request["arguments"]
        assert isinstance(arguments, list)
        return arguments

    def _report_ended(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 1 << 16)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._report(*ended)

    def _end_all(self) -> None:
        for pid in list(self._reports):
            os.kill(pid, signal.SIGKILL)
            self._report(*os.waitpid(pid, 0))

    def _report(self, pid: int, status: int) -> None:
        report = self._reports.pop(pid)
        self._send(report, os.waitstatus_to_exitcode(status))
        os.close(report)

    def _send(self, report: int, number: int) -> None:
        with suppress(BrokenPipeError):  # the test waits for it no longer
            os.write(report, b"%d\n" % number)


def main() -> None:
    descriptor, *modules = sys.argv[1:]
    for each in modules:
        importlib.import_module(each)
    if threading.active_count() > 1:
        raise RuntimeError(f"a fork would lack threads: {threading.enumerate()}")
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(descriptor)) as control:
        arguments = ForkServer(control).serve()
        if arguments is not None:
            control.detach()
    if arguments is not None:
        sys.argv = ["headrace", *arguments]
        headrace()


if __name__ == "__main__":
    main()
