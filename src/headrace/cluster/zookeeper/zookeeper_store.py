"""`ZooKeeperStore`: the cluster store of several brokers, in a ZooKeeper ensemble."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import structlog
from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from headrace.cluster.store import (
    MAX_COMMIT_BYTES,
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
    write_bytes,
)
from headrace.cluster.zookeeper.node_acls import NodeAcls
from headrace.cluster.zookeeper.tls_handler import TlsHandler
from headrace.cluster.zookeeper.zookeeper_access import ZooKeeperAccess
from headrace.cluster.zookeeper.zookeeper_watch import PIPELINE, ZooKeeperWatch
from headrace.model.error import InvalidArgument, StorageError, VersionConflict

_log = structlog.get_logger(__name__)

DEFAULT_ROOT = "/headrace"

_CONFLICTS = (BadVersionError, NodeExistsError, NoNodeError)
_NOT_THE_CAUSE = (RolledBackError, RuntimeInconsistency)
_ANY_VERSION = -1
_READ_TRIES = 3
_POLL_SECONDS = 0.1
_ANYONE = ZooKeeperAccess()
# How kazoo's warning begins when the servers refuse a login.
_REFUSED = "AUTH_FAILED"
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

    def __init__(
        self, client: KazooClient, wait_seconds: float, acls: NodeAcls | None = None
    ) -> None:
        """Use `open`."""
        self._client = client
        self._wait_seconds = wait_seconds
        self._acls = acls
        self._kinds: set[str] = set()
        self._watch = ZooKeeperWatch(client, wait_seconds, self._make_kind)

    @classmethod
    def open(
        cls,
        servers: str,
        *,
        session_ms: int = 9000,
        connect_seconds: float = _CONNECT_SECONDS,
        access: ZooKeeperAccess = _ANYONE,
    ) -> "ZooKeeperStore":
        """Connect to an ensemble, `host:port,host:port` with a root behind it if there is one.

        Raises:
            StorageError: none of the servers answers in time, or they refuse the login.
        """
        hosts, slash, root = servers.partition("/")
        warnings = _LastWarning()
        client = KazooClient(
            hosts=f"{hosts}{slash}{root}" if root else hosts + DEFAULT_ROOT,
            timeout=session_ms / 1000,
            connection_retry=_RECONNECT,
            logger=warnings.logger,
            **_options(access),
        )
        acls = NodeAcls(access.login) if access.set_acl else None
        # Not `start`, which warns of a root that is only about to be made.
        timeout = max(connect_seconds, 2 * session_ms / 1000)
        try:
            _connect(client, hosts, timeout)
            if not client.connected:
                raise StorageError(_unreachable(hosts, access, warnings.text))
            acl = None if acls is None else acls.of("/")
            client.ensure_path_async("/", acl=acl).get(timeout=timeout)
            if acls is not None:
                closed = acls.apply(client, timeout)
                if closed:
                    _log.info("zookeeper_acls_set", nodes=closed)
        except AuthFailedError as error:
            _discard(client)
            raise StorageError(_unreachable(hosts, access, warnings.text)) from error
        except (KazooException, KazooTimeoutError, StorageError) as error:
            _discard(client)
            raise error if isinstance(error, StorageError) else _failed("start", error) from error
        return cls(client, session_ms / 1000, acls)

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
            self._watch.shown([path])
            return _node(path, data, stat)

        return self._reading(f"read {path}", read)

    def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        wanted = list(paths)
        for path in wanted:
            check_path(path)

        def read() -> dict[str, Node]:
            nodes: list[Node] = []
            for start in range(0, len(wanted), PIPELINE):
                # With each piece: the connection may be another one by then.
                synced = self._client.sync_async("/")
                asked = self._asked(wanted[start : start + PIPELINE])
                synced.get(timeout=self._wait_seconds)
                nodes += self._answered(asked)
            self._watch.shown(node.path for node in nodes)
            return {node.path: node for node in nodes}

        return self._reading(f"read {len(wanted)} nodes", read)

    def scan(self, kind: str) -> list[Node]:
        def read() -> list[Node]:
            self._client.sync_async("/").get(timeout=self._wait_seconds)
            try:
                names = self._client.get_children_async(f"/{kind}").get(timeout=self._wait_seconds)
            except NoNodeError:
                return []
            nodes = self._answered(self._asked(sorted(f"/{kind}/{name}" for name in names)))
            self._watch.shown(node.path for node in nodes)
            return nodes

        return self._reading(f"list {kind}", read)

    def _asked(self, paths: Sequence[str]) -> list[tuple[str, Any]]:
        return [(path, self._client.get_async(path)) for path in paths]

    def _answered(self, asked: Sequence[tuple[str, Any]]) -> list[Node]:
        nodes = []
        for path, answer in asked:
            with suppress(NoNodeError):
                nodes.append(_node(path, *answer.get(timeout=self._wait_seconds)))
        return nodes

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
            _add(transaction, write, self._acls)
        try:
            results = transaction.commit_async().get(timeout=self._wait_seconds)
        except (KazooException, KazooTimeoutError) as error:
            raise _failed("commit", error) from error
        _raise_failure(writes, results)
        self._watch.shown(write.path for write in writes if isinstance(write, CreateNode))
        return [_version(write, result) for write, result in zip(writes, results, strict=True)]

    def _check(self, writes: Sequence[Write]) -> None:
        kinds = set()
        for write in writes:
            kind, _ = check_path(write.path)
            if isinstance(write, CreateNode | UpdateNode):
                check_data(write.path, write.data)
            if isinstance(write, CreateNode):
                kinds.add(kind)
        size = sum(map(write_bytes, writes))
        if size > MAX_COMMIT_BYTES:
            raise InvalidArgument(
                f"a commit of {size} bytes is more than ZooKeeper takes at once "
                f"({MAX_COMMIT_BYTES}): commit in pieces"
            )
        for kind in kinds:
            self._make_kind(kind)

    def _make_kind(self, kind: str) -> None:
        if kind in self._kinds:
            return
        path = f"/{kind}"
        acl = None if self._acls is None else self._acls.of(path)
        try:
            self._client.ensure_path_async(path, acl=acl).get(timeout=self._wait_seconds)
        except (KazooException, KazooTimeoutError) as error:
            raise _failed(f"make {path}", error) from error
        self._kinds.add(kind)

    def close(self) -> None:
        self._watch.stop()
        with suppress(KazooException, KazooTimeoutError):
            self._client.stop()
        with suppress(KazooException):
            self._client.close()


def _options(access: ZooKeeperAccess) -> dict[str, Any]:
    """Return kazoo's arguments for login and TLS; it logs in again on every connection."""
    options: dict[str, Any] = {}
    login = access.login
    if login is not None and login.scheme == "sasl":
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": login.user,
            "password": login.password,
        }
    elif login is not None:
        options["auth_data"] = [("digest", f"{login.user}:{login.password}")]
    if access.tls is not None:
        options["handler"] = TlsHandler(access.tls)
    return options


def _connect(client: KazooClient, hosts: str, seconds: float) -> None:
    """Wait for a connection, unless no server has a certificate that is believed."""
    live, end = client.start_async(), time.monotonic() + seconds
    handler = client.handler
    while not live.wait(_POLL_SECONDS) and time.monotonic() < end:
        if isinstance(handler, TlsHandler) and len(handler.untrusted) >= len(client.hosts):
            reasons = "; ".join(sorted(set(handler.untrusted.values())))
            raise StorageError(f"the certificate of ZooKeeper at {hosts} is not valid: {reasons}")


def _unreachable(hosts: str, access: ZooKeeperAccess, reason: str) -> str:
    if reason.startswith(_REFUSED) and access.login is not None:
        return f"ZooKeeper at {hosts} refuses the login of {access.login.user!r}"
    return f"no ZooKeeper server answers at {hosts}: is the ensemble running?" + (
        f" ({reason})" if reason else ""
    )


def _discard(client: KazooClient) -> None:
    with suppress(KazooException, KazooTimeoutError):
        client.stop()
    client.close()


class _LastWarning(logging.Handler):
    """A logger for kazoo that writes nothing, since the broker logs its own lines, and keeps the
    last warning, which alone says why a connection failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        self.logger = logging.Logger("headrace.zookeeper", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


def _node(path: str, data: bytes, stat: Any) -> Node:
    return Node(path, data, stat.version, ephemeral=stat.ephemeralOwner != 0)


def _add(transaction: Any, write: Write, acls: NodeAcls | None) -> None:
    match write:
        case CreateNode(path, data, ephemeral):
            acl = None if acls is None else acls.of(path)
            transaction.create(path, data, acl=acl, ephemeral=ephemeral)
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
    if isinstance(error, NoAuthError):
        return StorageError(
            f"ZooKeeper could not {what}: the node belongs to another ZooKeeper user than this "
            "broker's (see zookeeper.set.acl)"
        )
    if isinstance(error, InvalidACLError):
        return StorageError(
            f"ZooKeeper could not {what}: zookeeper.set.acl needs a login that the ensemble knows"
        )
    name = type(error).__name__
    return StorageError(f"ZooKeeper could not {what}: {name} {error}".rstrip())
