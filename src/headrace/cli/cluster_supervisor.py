"""`headrace up --brokers N`: a ZooKeeper and N brokers on this machine, under one supervisor.

Rule 1: a broker that ends is started again after a pause, which doubles while it fails soon after
its start. ZooKeeper is started again at once. The other processes keep running.
Rule 2: one Ctrl-C (or SIGTERM) stops all: one broker after the other, each moving its leaders away
first, and ZooKeeper last. A second one ends everything at once.
Rule 3: the output of all brokers goes to one output, each line with the broker's number.
Rule 4: no child outlives the supervisor, however that ends (`process.die_with_parent`).
Rule 5: the brokers log in to ZooKeeper with a password that only this user can read, and own its
nodes: other users of the machine reach its port, but read no SCRAM keys and change nothing.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import IO

from headrace.broker.config.listener import Listener
from headrace.model.broker_config import parse_broker_config
from headrace.model.error import ConfigError
from headrace.process.die_with_parent import die_with_parent
from headrace.process.zookeeper import ZooKeeperServer

_ZOOKEEPER_SECONDS = 60.0
_STOP_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# A broker that ran so long did not fail because of its configuration.
_HEALTHY_SECONDS = 60.0
_POLL_SECONDS = 0.1


def supervise(
    brokers: int, texts: Mapping[str, str], *, log_level: str = "info", log_format: str = "text"
) -> int:
    """Run a cluster until a signal comes, and return the exit code."""
    supervisor = ClusterSupervisor(
        brokers, texts, ["--log-level", log_level, "--log-format", log_format]
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, supervisor.signalled)
    return supervisor.run()


class BrokerChild:
    """One broker process, and when it is started again after it ended."""

    def __init__(self, number: int, command: Sequence[str]) -> None:
        self.number = number
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._started = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._due = 0.0
        self.announced = Event()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - a command of our own
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # the supervisor gets Ctrl-C and stops them in turn
            preexec_fn=die_with_parent,
        )
        self._started = time.monotonic()
        assert self._process.stdout is not None
        Thread(target=self._forward, args=(self._process.stdout,), daemon=True).start()

    def _forward(self, output: IO[str]) -> None:
        for line in output:
            print(f"broker {self.number} | {line}", end="", flush=True)
            if "listens on" in line:
                self.announced.set()

    def restart_if_ended(self) -> None:
        """Start the process again when it has ended and its pause is over."""
        if self.running:
            return
        now = time.monotonic()
        if self._process is not None:
            lived = now - self._started
            code = self._process.returncode
            self._process = None
            if lived > _HEALTHY_SECONDS:
                self._pause_seconds = _FIRST_PAUSE_SECONDS
            self._due = now + self._pause_seconds
            print(
                f"broker {self.number} ended with {code} after {lived:.0f} s: it is started again "
                f"in {self._pause_seconds:g} s",
                flush=True,
            )
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        elif now >= self._due:
            self.start()

    def stop(self) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class ClusterSupervisor:
    """Starts the children, restarts and stops them. Runs in the main thread (rule 4)."""

    def __init__(self, brokers: int, texts: Mapping[str, str], options: Sequence[str]) -> None:
        values = parse_broker_config(dict(texts))
        directories = values["log.dirs"]
        assert isinstance(directories, tuple)
        if len(directories) > 1:
            raise ConfigError("--brokers needs one data directory: each broker gets a folder in it")
        self._home = Path(str(directories[0]))
        listeners = values["listeners"]
        assert isinstance(listeners, tuple)
        if len(listeners) != 1:
            raise ConfigError("--brokers needs one listener: each broker gets the next port")
        first = Listener.parse(str(listeners[0]))
        if first.port == 0:
            raise ConfigError("--brokers needs a port to count up from: write --listen HOST:PORT")
        self._stopping = False
        self._zookeeper = ZooKeeperServer(self._home / "zookeeper", first.port - 1)
        self._children = [
            BrokerChild(number, self._command(number, first, texts, brokers, options))
            for number in range(1, brokers + 1)
        ]
        self._address = ",".join(f"{first.host}:{first.port + number}" for number in range(brokers))

    def _command(
        self,
        number: int,
        first: Listener,
        texts: Mapping[str, str],
        brokers: int,
        options: Sequence[str],
    ) -> list[str]:
        replicas = str(min(3, brokers))
        settings = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(max(1, min(3, brokers) - 1)),
            "headrace.admin.listener": "127.0.0.1:0",
            "headrace.zookeeper.user.file": str(self._user_file),
            "headrace.zookeeper.auth.scheme": "digest",
            "zookeeper.set.acl": "true",
            **texts,
            "node.id": str(number),
            "listeners": f"{first.name}://{first.host}:{first.port + number - 1}",
            "log.dirs": str(self._home / f"broker-{number}"),
            "zookeeper.connect": self._zookeeper.address,
        }
        return [
            *(sys.executable, "-m", "headrace.cli.main", "up", *options),
            *(f"-X{key}={value}" for key, value in settings.items()),
        ]

    def signalled(self, number: int, frame: object) -> None:
        if self._stopping:
            print("Stopped at once: the next start checks the logs.", flush=True)
            os._exit(128 + number)
        self._stopping = True

    def run(self) -> int:
        """Start all processes, restart those that end, and stop all when a signal comes."""
        try:
            self._make_user()
            if not self._start_zookeeper():
                return 1
            for child in self._children:
                child.start()
            self._wait_for_brokers()
            while not self._stopping:
                self._restart_ended()
                time.sleep(_POLL_SECONDS)
            print("Stopping ...", flush=True)
            for child in self._children:
                child.stop()
        finally:
            for child in self._children:
                child.kill()
            self._zookeeper.stop()
        print("Stopped.", flush=True)
        return 0

    @property
    def _user_file(self) -> Path:
        return self._home / "zookeeper.user"

    def _make_user(self) -> None:
        """Make the brokers' ZooKeeper user at the first start (rule 5)."""
        if self._user_file.exists():
            return
        self._home.mkdir(parents=True, exist_ok=True)
        scratch = self._user_file.with_suffix(".tmp")
        scratch.unlink(missing_ok=True)
        scratch.touch(mode=0o600)
        scratch.write_text(f"broker={secrets.token_urlsafe(24)}\n")
        scratch.replace(self._user_file)

    def _start_zookeeper(self) -> bool:
        self._zookeeper.launch()
        deadline = time.monotonic() + _ZOOKEEPER_SECONDS
        while not self._zookeeper.serves():
            if self._zookeeper.exit_code is not None or time.monotonic() > deadline:
                tail = self._zookeeper.server_log.read_text(errors="replace")[-2000:]
                print(f"ZooKeeper did not start:\n{tail}", file=sys.stderr)
                return False
            time.sleep(_POLL_SECONDS)
        print(f"ZooKeeper listens on {self._zookeeper.address}", flush=True)
        return True

    def _wait_for_brokers(self) -> None:
        while not self._stopping and not all(each.announced.is_set() for each in self._children):
            self._restart_ended()
            time.sleep(_POLL_SECONDS)
        if not self._stopping:
            print(f"Headrace serves {len(self._children)} brokers on {self._address}", flush=True)
            print(f"Data in {self._home.resolve()}", flush=True)

    def _restart_ended(self) -> None:
        if self._zookeeper.exit_code is not None:
            print("ZooKeeper ended: it is started again", flush=True)
            self._zookeeper.launch()
        for child in self._children:
            child.restart_if_ended()
