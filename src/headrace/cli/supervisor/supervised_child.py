"""A process that is started again when it ends: a broker of a cluster, a service beside a broker.

It does not outlive the thread that starts it, however that ends (`process.die_with_parent`). Its
output goes to ours, each line with its name.
"""

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from threading import Event, Thread
from typing import IO

from headrace.process.die_with_parent import die_with_parent

_STOP_SECONDS = 60.0
_OUTPUT_SECONDS = 2.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# A process that ran so long did not fail because of its configuration.
_HEALTHY_SECONDS = 60.0


class SupervisedChild:
    """One process, and when it is started again after it ended. For one thread, which stays.

    Args:
        name: begins each line of its output.
        announcement: a part of the line that it prints when it is ready.
        configuration: what it reads from its standard input. Secrets belong there: every user of
            the machine sees the command.

    Attributes:
        starts: how often it was started.
        kills: how often it was killed because it did not end in time for a restart.
        announced: set while it runs and has printed its announcement.
    """

    def __init__(
        self, name: str, command: Sequence[str], announcement: str, configuration: str = ""
    ) -> None:
        self.name = name
        self._command = command
        self._announcement = announcement
        self._configuration = configuration
        self._process: subprocess.Popen[str] | None = None
        self._output: Thread | None = None
        self._started = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._due = 0.0
        self._restarting = False
        self._kill_at = 0.0
        self._limit_seconds = 0.0
        self.starts = 0
        self.kills = 0
        self.announced = Event()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def serves(self) -> bool:
        """Whether it runs, is ready, and is not about to end for a restart."""
        return self.running and self.announced.is_set() and not self._restarting

    def start(self) -> None:
        self.announced.clear()
        self.starts += 1
        self._process = subprocess.Popen(  # noqa: S603 - a command of our own
            self._command,
            stdin=subprocess.PIPE if self._configuration else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # its parent gets Ctrl-C and stops its children in turn
            preexec_fn=die_with_parent,
        )
        self._started = time.monotonic()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError), self._process.stdin as stdin:  # it may have ended
                stdin.write(self._configuration)
        assert self._process.stdout is not None
        self._output = Thread(target=self._forward, args=(self._process.stdout,), daemon=True)
        self._output.start()

    def _forward(self, output: IO[str]) -> None:
        with output:
            for line in output:
                print(f"{self.name} | {line}", end="", flush=True)
                if self._announcement in line:
                    self.announced.set()

    def restart_if_ended(self) -> None:
        """Start the process again when it has ended and its pause is over."""
        now = time.monotonic()
        if self.running:
            if self._restarting and now >= self._kill_at:
                self._kill_late()
            return
        if self._process is not None:
            lived = now - self._started
            code = self._process.returncode
            self._process = None
            if self._restarting:
                self._restarting = False
                print(f"{self.name} ended with {code}: it is restarted", flush=True)
                self.start()
                return
            if lived > _HEALTHY_SECONDS:
                self._pause_seconds = _FIRST_PAUSE_SECONDS
            self._due = now + self._pause_seconds
            print(
                f"{self.name} ended with {code} after {lived:.0f} s: it is started again "
                f"in {self._pause_seconds:g} s",
                flush=True,
            )
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        elif now >= self._due:
            self.start()

    def restart(self, limit_seconds: float) -> None:
        """Ask it to end, as a signal does. `restart_if_ended` starts it again without a pause, and
        kills it if it has not ended after `limit_seconds`."""
        if self._process is not None and self.running:
            self._restarting = True
            self._limit_seconds = limit_seconds
            self._kill_at = time.monotonic() + limit_seconds
            self._process.terminate()

    def _kill_late(self) -> None:
        assert self._process is not None
        print(
            f"{self.name} has not ended {self._limit_seconds:g} s after it was asked to: it is "
            "killed",
            flush=True,
        )
        self.kills += 1
        self._kill_at = inf  # once; it may take a moment to end
        self._process.kill()

    def stop(self) -> None:
        """End it as a signal does; kill it if it does not end in a minute."""
        process = self._process
        if process is None:
            return
        if not self._restarting:  # it ends already, and a second signal would end it at once
            process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._output is not None:  # its last lines belong before ours
            self._output.join(_OUTPUT_SECONDS)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
