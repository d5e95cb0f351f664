"""`headrace up --brokers N`: a ZooKeeper and N brokers on this machine, under one supervisor.

With `--zookeeper` the brokers join that ensemble's cluster, and no ZooKeeper is started.

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
Rule 7: `headrace cluster restart` asks for the restart of one broker at a time, over a socket that
only this user can open. It is refused while any broker is not ready, or ZooKeeper does not serve:
the broker could not join again. Whether the cluster can do
without the broker, the command decides: it may log in as a client, the supervisor may not.
Rule 8: a broker that does not end within the time that the command sets is killed, also if the
command is gone by then: one that hangs would be away for ever.
Rule 9: one supervisor runs in a data directory (`supervisor_lock`).
"""

import os
import secrets
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from headrace.cli.supervisor.broker_plan import BrokerPlan
from headrace.cli.supervisor.side_service import SideService
from headrace.cli.supervisor.supervised_child import SupervisedChild
from headrace.cli.supervisor.supervisor_lock import SupervisorLock
from headrace.cli.supervisor.supervisor_socket import SupervisorSocket
from headrace.config.properties import format_properties
from headrace.process.zookeeper import ZooKeeperServer

_ZOOKEEPER_SECONDS = 60.0
_POLL_SECONDS = 0.1
_HAND_OVER_SECONDS = 120.0
_DAY_SECONDS = 86_400


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
        self._plan = BrokerPlan(brokers, texts)
        self._stopping = False
        self._zookeeper: ZooKeeperServer | None = None
        if not self._plan.joined:
            folder = self._plan.home / "zookeeper"
            self._zookeeper = ZooKeeperServer(folder, self._plan.zookeeper_port)
        self._children = {
            number: SupervisedChild(
                f"broker {number}",
                self._command(number, options),
                "listens on",
                format_properties(self._plan.settings(number)),
            )
            for number in self._plan.ids
        }
        near = self._plan.local_address
        self._services = [each.child(near, options) for each in services]

    def _command(self, number: int, options: Sequence[str]) -> list[str]:
        # The id is for those who look at the list of processes.
        more = ("--broker-id", str(number), "--config", "/dev/stdin")
        return [sys.executable, "-m", "headrace.cli.main", "up", *more, *options]

    def signalled(self, number: int, frame: object) -> None:
        if self._stopping:
            print("Stopped at once: the next start checks the logs.", flush=True)
            os._exit(128 + number)
        self._stopping = True

    def run(self) -> int:
        """Start all processes, restart those that end, and stop all when a signal comes.

        Raises:
            ConfigError: another supervisor runs in the data directory (rule 9).
        """
        lock = SupervisorLock(self._plan.home)
        try:
            return self._run(SupervisorSocket(self._plan.home))
        finally:
            lock.release()

    def _run(self, commands: SupervisorSocket) -> int:
        if commands.problem is not None:
            print(f"headrace cluster restart cannot be used: {commands.problem}", flush=True)
        try:
            if self._zookeeper is not None:
                self._make_user()
                if not self._start_zookeeper(self._zookeeper):
                    return 1
            for child in self._children.values():
                child.start()
            self._wait_for_brokers(commands)
            for service in () if self._stopping else self._services:
                service.start()
            while not self._stopping:
                for service in self._services:
                    service.restart_if_ended()
                self._restart_ended()
                commands.serve(_POLL_SECONDS, self._answer)
            print("Stopping ...", flush=True)
            for child in (*self._services, *self._children.values()):
                child.stop()
        finally:
            for child in (*self._services, *self._children.values()):
                child.kill()
            if self._zookeeper is not None:
                self._zookeeper.stop()
            commands.close()
        print("Stopped.", flush=True)
        return 0

    def _make_user(self) -> None:
        """Make the brokers' ZooKeeper user at the first start (rule 5)."""
        user_file = self._plan.user_file
        if user_file.exists():
            return
        scratch = user_file.with_suffix(".tmp")
        scratch.unlink(missing_ok=True)
        scratch.touch(mode=0o600)
        scratch.write_text(f"broker={secrets.token_urlsafe(24)}\n")
        scratch.replace(user_file)

    def _start_zookeeper(self, zookeeper: ZooKeeperServer) -> bool:
        zookeeper.launch()
        deadline = time.monotonic() + _ZOOKEEPER_SECONDS
        while not zookeeper.serves():
            if zookeeper.exit_code is not None or time.monotonic() > deadline:
                tail = zookeeper.server_log.read_text(errors="replace")[-2000:]
                print(f"ZooKeeper did not start:\n{tail}", file=sys.stderr)
                return False
            time.sleep(_POLL_SECONDS)
        print(f"ZooKeeper listens on {zookeeper.address}", flush=True)
        return True

    def _wait_for_brokers(self, commands: SupervisorSocket) -> None:
        while not self._stopping and not self._all_serve:
            self._restart_ended()
            commands.serve(_POLL_SECONDS, self._answer)
        if not self._stopping:
            print(
                f"Headrace serves {len(self._children)} brokers on {self._plan.address}", flush=True
            )
            print(f"Data in {self._plan.home.resolve()}", flush=True)

    @property
    def _all_serve(self) -> bool:
        return all(each.announced.is_set() for each in self._children.values())

    def _answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a command (rules 7 and 8): `status`, `zookeeper`, or `restart` with the id of a
        broker and perhaps the seconds that it has to end."""
        match request:
            case {"command": "status"}:
                return self._status()
            case {"command": "zookeeper"}:
                return {"settings": self._plan.zookeeper_settings()}
            case {"command": "restart", "broker": int(number)} if (
                number in self._children and not isinstance(number, bool)  # True equals 1
            ):
                obstacle = self._obstacle()
                if obstacle is not None:
                    return {"error": obstacle}
                limit = request.get("hand_over_seconds", _HAND_OVER_SECONDS)
                if not _is_duration(limit):
                    return {"error": "hand_over_seconds is a number of seconds, a day at most"}
                print(f"broker {number} is restarted, as headrace cluster restart asks", flush=True)
                self._children[number].restart(limit)
                return self._status()
            case {"command": "restart", "broker": number}:
                ids = ", ".join(map(str, self._children))
                return {"error": f"there is no broker {number} here: the brokers are {ids}"}
        return {"error": "this headrace up knows the commands status, zookeeper and restart"}

    def _obstacle(self) -> str | None:
        """Return why no broker can be restarted now (rule 7)."""
        if not self._plan.hands_over:
            return (
                "controlled.shutdown.enable=false: brokers would not hand their leaders over, so "
                "none is restarted; leave that setting out"
            )
        late = [each for each, child in self._children.items() if not child.serves]
        if late:
            return f"broker {late[0]} is not ready: none is restarted meanwhile"
        if self._zookeeper is not None and not self._zookeeper.serves():
            return (
                f"ZooKeeper does not serve on {self._zookeeper.address}: a broker could not join "
                "again, so none is restarted meanwhile"
            )
        return None

    def _status(self) -> dict[str, Any]:
        return {
            "address": self._plan.local_address,
            "brokers": [
                {
                    "id": number,
                    "starts": child.starts,
                    "ready": child.serves,
                    "kills": child.kills,
                }
                for number, child in self._children.items()
            ],
        }

    def _restart_ended(self) -> None:
        if self._zookeeper is not None and self._zookeeper.exit_code is not None:
            print("ZooKeeper ended: it is started again", flush=True)
            self._zookeeper.launch()
        for child in self._children.values():
            child.restart_if_ended()


def _is_duration(seconds: object) -> TypeGuard[float]:
    """Return whether this is a number of seconds, of all that a line of JSON can hold."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return is_number and 0 < seconds <= _DAY_SECONDS  # type: ignore[operator]
