"""`headrace up --brokers N`: a ZooKeeper and N brokers on this machine, under one supervisor.

Rule 1: a broker that ends is started again after a pause, which doubles while it fails soon after
its start. ZooKeeper is started again at once. The other processes keep running.
Rule 2: one Ctrl-C (or SIGTERM) stops all: the services of `--with`, then the brokers in turn, each
moving its leaders away first, and ZooKeeper last. A second one ends everything at once.
Rule 3: the output of all brokers goes to one output, each line with the broker's number.
Rule 4: no child outlives the supervisor, however that ends (`process.die_with_parent`).
Rule 5: the brokers log in to ZooKeeper with a password that only this user can read, and own its
nodes: other users of the machine reach its port, but read no SCRAM keys and change nothing.
Rule 6: a broker reads its configuration from its standard input, because it may hold passwords, and
every user of the machine can list the commands of all processes.
"""

import os
import secrets
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.broker.config.listener import Listener
from headrace.cli.side_service import SideService
from headrace.cli.supervised_child import SupervisedChild
from headrace.config.properties import format_properties
from headrace.model.broker_config import parse_broker_config
from headrace.model.error import ConfigError
from headrace.process.zookeeper import ZooKeeperServer

_ZOOKEEPER_SECONDS = 60.0
_POLL_SECONDS = 0.1


def supervise(
    brokers: int,
    texts: Mapping[str, str],
    services: Sequence[SideService] = (),
    *,
    log_level: str = "info",
    log_format: str = "text",
) -> int:
    """Run a cluster until a signal comes, and return the exit code."""
    options = ["--log-level", log_level, "--log-format", log_format]
    supervisor = ClusterSupervisor(brokers, texts, options, services)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, supervisor.signalled)
    return supervisor.run()


class ClusterSupervisor:
    """Starts the children, restarts and stops them. Runs in the main thread (rule 4)."""

    def __init__(
        self,
        brokers: int,
        texts: Mapping[str, str],
        options: Sequence[str],
        services: Sequence[SideService] = (),
    ) -> None:
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
            SupervisedChild(
                f"broker {number}",
                self._command(number, options),
                "listens on",
                format_properties(self._settings(number, first, texts, brokers)),
            )
            for number in range(1, brokers + 1)
        ]
        self._address = ",".join(f"{first.host}:{first.port + number}" for number in range(brokers))
        local = "127.0.0.1" if first.wildcard else first.host
        near = ",".join(f"{local}:{first.port + number}" for number in range(brokers))
        self._services = [each.child(near, options) for each in services]

    def _command(self, number: int, options: Sequence[str]) -> list[str]:
        # The id is for those who look at the list of processes.
        more = ("--broker-id", str(number), "--config", "/dev/stdin")
        return [sys.executable, "-m", "headrace.cli.main", "up", *more, *options]

    def _settings(
        self, number: int, first: Listener, texts: Mapping[str, str], brokers: int
    ) -> dict[str, str]:
        replicas = str(min(3, brokers))
        return {
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
            for service in () if self._stopping else self._services:
                service.start()
            while not self._stopping:
                for service in self._services:
                    service.restart_if_ended()
                self._restart_ended()
                time.sleep(_POLL_SECONDS)
            print("Stopping ...", flush=True)
            for child in (*self._services, *self._children):
                child.stop()
        finally:
            for child in (*self._services, *self._children):
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
