"""`ZooKeeperStore`: the cluster store of several brokers, in a ZooKeeper ensemble."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from headrace.cluster.store import (
    MAX_NODE_BYTES,
    CheckNode,
    CreateNode,
    DeleteNode,
    Node,
    SessionWatcher,
    UpdateNode,
    Watcher,
    Write,
    check_data,
    check_path,
)
from headrace.cluster.zookeeper_watch import ZooKeeperWatch
from headrace.model.error import InvalidArgument, StorageError, VersionConflict

DEFAULT_ROOT = "/headrace"

_CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError)
_NOT_THE_CAUSE = (RolledBackError, RuntimeInconsistency)
_ANY_VERSION = -1
_READ_TRIES = 3
# kazoo would wait longer each time, until a session ends that could have been kept.
_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5}

_Answer = TypeVar("_Answer")
# Kafka's zookeeper.connection.timeout.ms: a session may be much shorter than a slow disk's sync,
# which a new one waits for.
_CONNECT_SECONDS = 18.0


class ZooKeeperStore:
    """Every node a znode below the root, every commit one `multi`.

    Crash behaviour: ZooKeeper's. A commit that was on its way when the connection broke may have
    been done: it raises `StorageError`, and the caller reads again (rule 5 of the store).

    Reads are preceded by a `sync`, so that they show at least what was committed before them,
    whichever server of the ensemble answers.

    Thread rule: any thread may call anything but `close`, which comes once and last. One thread
    of the store calls all watchers, in order.
    """

    def __init__(self, client: KazooClient, wait_seconds: float) -> None:
        """Use `open`."""
        self._client = client
        self._wait_seconds = wait_seconds
        self._kinds: set[str] = set()
        self._watch = ZooKeeperWatch(client, wait_seconds, self._make_kind)

    @classmethod
    def open(
        cls, servers: str, *, session_ms: int = 9000, connect_seconds: float = _CONNECT_SECONDS
    ) -> "ZooKeeperStore":
        """Connect to an ensemble, `host:port,host:port` with a root behind it if there is one.

        Raises:
            StorageError: none of the servers answers in time.
        """
        hosts, slash, root = servers.partition("/")
        client = KazooClient(
            hosts=f"{hosts}{slash}{root}" if root else hosts + DEFAULT_ROOT,
            timeout=session_ms / 1000,
            connection_retry=_RECONNECT,
            logger=_quiet_logger(),
        )
        # Not `start`, which warns of a root that is only about to be made.
        timeout = max(connect_seconds, 2 * session_ms / 1000)
        client.start_async().wait(timeout=timeout)
        try:
            if not client.connected:
                raise StorageError(
                    f"no ZooKeeper server answers at {hosts}: is the ensemble running?"
                )
            client.ensure_path_async("/").get(timeout=timeout)
        except (KazooException, KazooTimeoutError, StorageError) as error:
            client.stop()
            client.close()
            raise error if isinstance(error, StorageError) else _failed("start", error) from error
        return cls(client, session_ms / 1000)

    # Reading

    def get(self, path: str) -> Node | None:
        check_path(path)

        def read() -> Node | None:
            # One behind the other on one connection: the answer is what the sync made sure of.
            synced, answer = self._client.sync_async("/"), self._client.get_async(path)
            synced.get(timeout=self._wait_seconds)
            try:
                data, stat = answer.get(timeout=self._wait_seconds)
            except NoNodeError:
                return None
            return _node(path, data, stat)

        return self._reading(f"read {path}", read)

    def scan(self, kind: str) -> list[Node]:
        def read() -> list[Node]:
            self._client.sync_async("/").get(timeout=self._wait_seconds)
            try:
                names = self._client.get_children_async(f"/{kind}").get(timeout=self._wait_seconds)
            except NoNodeError:
                return []
            asked = [
                (path, self._client.get_async(path))
                for path in sorted(f"/{kind}/{name}" for name in names)
            ]
            nodes = []
            for path, answer in asked:
                with suppress(NoNodeError):
                    nodes.append(_node(path, *answer.get(timeout=self._wait_seconds)))
            return nodes

        return self._reading(f"list {kind}", read)

    def _reading(self, what: str, read: Callable[[], _Answer]) -> _Answer:
        for attempt in range(_READ_TRIES):
            try:
                return read()
            except (ConnectionLoss, SessionExpiredError) as error:
                if attempt == _READ_TRIES - 1:
                    raise _failed(what, error) from error
            except (KazooException, KazooTimeoutError) as error:
                raise _failed(what, error) from error
        raise AssertionError("unreachable")

    def watch(self, kind: str, watcher: Watcher) -> Callable[[], None]:
        return self._watch.add(kind, watcher)

    def watch_session(self, watcher: SessionWatcher) -> None:
        self._watch.watch_session(watcher)

    # Writing

    def put(self, path: str, data: bytes, version: int | None) -> int:
        write = CreateNode(path, data) if version is None else UpdateNode(path, data, version)
        return self.commit([write])[0]

    def commit(self, writes: Sequence[Write]) -> list[int]:
        self._check(writes)
        if not writes:
            return []
        transaction = self._client.transaction()
        for write in writes:
            _add(transaction, write)
        try:
            results = transaction.commit_async().get(timeout=self._wait_seconds)
        except (KazooException, KazooTimeoutError) as error:
            raise _failed("commit", error) from error
        _raise_failure(writes, results)
        return [_version(write, result) for write, result in zip(writes, results, strict=True)]

    def _check(self, writes: Sequence[Write]) -> None:
        size = 0
        for write in writes:
            kind, _ = check_path(write.path)
            if isinstance(write, CreateNode | UpdateNode):
                check_data(write.path, write.data)
                size += len(write.data) + len(write.path)
            if isinstance(write, CreateNode):
                self._make_kind(kind)
        if len(writes) > 1 and size > MAX_NODE_BYTES:
            raise InvalidArgument(
                f"a commit of {size} bytes is more than ZooKeeper takes at once "
                f"({MAX_NODE_BYTES}): commit in pieces"
            )

    def _make_kind(self, kind: str) -> None:
        if kind in self._kinds:
            return
        try:
            self._client.ensure_path_async(f"/{kind}").get(timeout=self._wait_seconds)
        except (KazooException, KazooTimeoutError) as error:
            raise _failed(f"make /{kind}", error) from error
        self._kinds.add(kind)

    def close(self) -> None:
        self._watch.stop()
        with suppress(KazooException, KazooTimeoutError):
            self._client.stop()
        with suppress(KazooException):
            self._client.close()


def _quiet_logger() -> logging.Logger:
    """Return a logger that drops kazoo's warning for every reconnect; the broker logs its own."""
    logger = logging.getLogger("headrace.zookeeper")
    logger.setLevel(logging.ERROR)
    return logger


def _node(path: str, data: bytes, stat: Any) -> Node:
    return Node(path, data, stat.version, ephemeral=stat.ephemeralOwner != 0)


def _add(transaction: Any, write: Write) -> None:
    match write:
        case CreateNode(path, data, ephemeral):
            transaction.create(path, data, ephemeral=ephemeral)
        case UpdateNode(path, data, version):
            transaction.set_data(path, data, _ANY_VERSION if version is None else version)
        case DeleteNode(path, version):
            transaction.delete(path, _ANY_VERSION if version is None else version)
        case CheckNode(path, version):
            transaction.check(path, version)


def _raise_failure(writes: Sequence[Write], results: Sequence[object]) -> None:
    for write, result in zip(writes, results, strict=True):
        if isinstance(result, _CONFLICTS):
            raise VersionConflict(f"{write.path} is not as expected: {type(result).__name__}")
        if isinstance(result, Exception) and not isinstance(result, _NOT_THE_CAUSE):
            raise _failed(f"change {write.path}", result)
    if any(isinstance(result, Exception) for result in results):
        raise StorageError("ZooKeeper rolled back a commit without a reason: try again")


def _version(write: Write, result: Any) -> int:
    match write:
        case CreateNode():
            return 0
        case UpdateNode():
            return int(result.version)
        case DeleteNode():
            return -1
        case CheckNode(_, version):
            return version


def _failed(what: str, error: Exception) -> StorageError:
    name = type(error).__name__
    return StorageError(f"ZooKeeper could not {what}: {name} {error}".rstrip())
