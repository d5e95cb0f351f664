"""The lock of `headrace cluster restart`: one restart at a time goes on in a cluster.

It lies in the ZooKeeper of the brokers, so that it counts for all machines. The supervisor of the
brokers says how to reach that: the command runs as the same user.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.cli.supervisor.supervisor_socket import ask_supervisor
from headrace.client.error import ClientError
from headrace.cluster.session_lock import SessionLock
from headrace.model.error import StorageError
from headrace.process.machine import machine_name

_NAME = "restart"


class RestartLock:
    """The lock while a restart has it."""

    def __init__(self, lock: SessionLock) -> None:
        self._lock = lock

    def check(self) -> None:
        """Make sure, right before a broker is restarted, that no other restart goes on.

        Raises:
            ClientError: the lock is lost, or ZooKeeper cannot be asked.
        """
        try:
            held = self._lock.held()
        except StorageError as error:
            raise ClientError(f"ZooKeeper does not show who restarts brokers: {error}") from error
        if not held:
            raise ClientError(
                "the session with ZooKeeper has ended, so that another restart may have begun: no "
                "further broker is restarted. Run the command again"
            )


@contextmanager
def restart_lock(home: Path) -> Iterator[RestartLock]:
    """Hold the lock of the cluster to which the supervisor of a data directory belongs.

    Raises:
        ClientError: another restart has it, or ZooKeeper cannot be reached.
    """
    # Here: other commands do without a broker's libraries.
    from headrace.broker.auth.zookeeper_settings import zookeeper_access
    from headrace.broker.config.settings import BrokerSettings
    from headrace.cluster.zookeeper.zookeeper_store import ZooKeeperStore

    settings = BrokerSettings(ask_supervisor(home, {"command": "zookeeper"})["settings"])
    session_ms = int(settings["zookeeper.session.timeout.ms"])
    try:
        store = ZooKeeperStore.open(
            str(settings["zookeeper.connect"]),
            session_ms=session_ms,
            access=zookeeper_access(settings),
        )
    except StorageError as error:
        raise ClientError(f"no broker is restarted: {error}") from error
    try:
        lock = SessionLock(store, _NAME, {"machine": machine_name(), "process": os.getpid()})
        try:
            holder = lock.acquire()
        except StorageError as error:
            raise ClientError(f"no broker is restarted: {error}") from error
        if holder is not None:
            raise ClientError(
                f"no broker is restarted: another headrace cluster restart goes on, on machine "
                f"{holder.get('machine')} (process {holder.get('process')}). Wait until it has "
                f"ended; if it was killed, for {session_ms / 1000:g} s"
            )
        try:
            yield RestartLock(lock)
        finally:
            lock.release()
    finally:
        store.close()
