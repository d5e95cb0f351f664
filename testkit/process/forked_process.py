"""Commands of `headrace` that start as forks of a process which has imported them."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.process.die_with_parent import die_with_parent
from testkit.process.fork_server import MOST_BYTES

# What each command imports while it starts. Only commands whose memory no test compares with a
# limit: a fork has imported all of it, used or not.
_MODULES = {
    "agent": (
        "headrace.cli.agent",
        "headrace.client.read.reader",
        "headrace.client.write.writer",
    ),
    "mirror": (
        "headrace.cli.mirror",
        "headrace.mirror.link.link_process",
        "headrace.mirror.process.mirror_process",
        "headrace.telemetry.metrics_endpoint",
    ),
    "registry": ("headrace.cli.registry", "headrace.gateway.registry.server"),
    "up": (
        "headrace.cli.broker.up",
        "headrace.broker.server",
        "headrace.cluster.zookeeper.zookeeper_store",
    ),
}


class ForkedProcess:
    """A process as `subprocess.Popen` shows it; it is a child of the fork server."""

    def __init__(self, report: int) -> None:
        self._report = os.fdopen(report, "rb", buffering=0)
        self.returncode: int | None = None
        line = self._report.readline()
        if not line:
            raise OSError("the fork server has ended")
        self.pid = int(line)

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not in so many seconds.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("headrace", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()  # select() takes no descriptor past 1023
            waiting.register(self._report, select.POLLIN)
            if waiting.poll(None if seconds is None else seconds * 1000):
                line = self._report.readline()
                self._report.close()
                # A server that was killed takes its forks along.
                self.returncode = int(line) if line else -signal.SIGKILL
        return self.returncode


class ForkServers:
    """One fork server for each command, started when it is first needed.

    Args:
        modules: the commands that start as forks, and what each imports while it starts.

    Example:
        servers = ForkServers()
        servers.start(["up", "--data", "data"], folder, sys.stdout.fileno())
    """

    def __init__(self, modules: Mapping[str, Sequence[str]] = _MODULES) -> None:
        self._modules = modules
        self._controls: dict[str, socket.socket] = {}
        self._servers: list[subprocess.Popen[bytes]] = []

    def start(self, arguments: Sequence[str], folder: Path, output: int) -> ForkedProcess | None:
        """Start a command; None if it has to start by itself."""
        modules = self._modules.get(arguments[0])
        if modules is None:
            return None
        control = self._controls.get(arguments[0])
        if control is None:
            if threading.current_thread() is not threading.main_thread():
                return None  # the server would end with this thread
            control = self._serve(arguments[0], modules)
        request = json.dumps(
            {
                "arguments": list(arguments),
                "folder": str(folder),
                "environment": dict(os.environ),
            }
        ).encode()
        assert len(request) < MOST_BYTES
        reading, writing = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            socket.send_fds(control, [request], [nothing, output, writing])
        finally:
            os.close(nothing)
            os.close(writing)
        return ForkedProcess(reading)

    def close(self) -> None:
        """End all servers, and with them what they have started."""
        for each in self._controls.values():
            each.close()
        self._controls.clear()
        for server in self._servers:
            server.wait(60)
        self._servers.clear()

    def _serve(self, command: str, modules: Sequence[str]) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            server = subprocess.Popen(
                [
                    *(sys.executable, "-m", "testkit.process.fork_server"),
                    *(str(its.fileno()), *modules),
                ],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._controls[command] = ours
        self._servers.append(server)
        return ours
