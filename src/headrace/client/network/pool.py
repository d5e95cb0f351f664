"""The connections to a cluster: one per broker, opened on first use."""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from types import TracebackType
from typing import Any, TypeVar

from headrace.client.address import Address
from headrace.client.error import BrokerError, ConnectionLost, Unreachable, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.idle_connection import IDLE
from headrace.client.network.inbox import Allocate
from headrace.client.network.metadata import BrokerMetadata, Metadata
from headrace.client.network.retry import STALE_COORDINATOR, Retry
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

T = TypeVar("T")


class CoordinatorType(IntEnum):
    """What a coordinator coordinates: the key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


# From this version on a request names several keys (KIP-699), in another layout: Kafka 3.0.
_FIRST_MANY_KEYS = 4


class ConnectionPool:
    """The connections of one thread to one cluster, and the metadata it fetched last.

    Example:
        with ConnectionPool(ClientSettings.of({"bootstrap.servers": "127.0.0.1:9092"})) as pool:
            print(pool.metadata().topics)

    Args:
        allocate: allocates the buffers that responses are read into.
    """

    def __init__(self, settings: ClientSettings, allocate: Allocate = bytearray) -> None:
        self.settings = settings
        self._allocate = allocate
        self._seed: BrokerConnection | None = None
        self._connections: dict[int, BrokerConnection] = {}
        self._brokers: dict[int, BrokerMetadata] = {}
        self._coordinators: dict[tuple[CoordinatorType, str], int] = {}
        self._controller = -1
        self._known: Metadata | None = None

    def any(self, but: Collection[Address] = ()) -> BrokerConnection:
        """Return an open connection, or else connect to the first broker of bootstrap.servers or of
        the known metadata that can be reached.

        Args:
            but: addresses to leave out.

        Raises:
            Unreachable: no broker can be reached.
        """
        for connection in (*self._connections.values(), self._seed):
            if connection is not None and not connection.closed and connection.address not in but:
                return connection
        known = dict.fromkeys((*self.settings.bootstrap, *self._known_addresses()))
        addresses = [address for address in known if address not in but]
        problems = []
        for address in addresses:
            try:
                self._seed = IDLE.open(address, self.settings, self._allocate)
            except (Unreachable, ConnectionLost) as error:
                problems.append(error)
            else:
                return self._seed
        raise _unreachable(addresses, problems)

    def node(self, node_id: int) -> BrokerConnection:
        """Return the connection to one broker, and open it if there is none.

        Raises:
            Unreachable: the broker is not part of the cluster, or cannot be reached.
        """
        connection = self._connections.get(node_id)
        if connection is not None and not connection.closed:
            return connection
        broker = self._brokers.get(node_id)
        if broker is None:
            raise Unreachable(f"broker {node_id} is not there at the moment")
        try:
            connection = IDLE.open(broker.address, self.settings, self._allocate)
        except Unreachable as error:
            raise Unreachable(f"broker {node_id}, as the cluster advertises it: {error}") from error
        self._connections[node_id] = connection
        return connection

    def metadata(self, topics: Iterable[str] | None = None, *, create: bool = False) -> Metadata:
        """Fetch the metadata of some topics, or of all of them.

        Args:
            create: let the broker create missing topics, if it does that (KIP-361).
        """
        names = None if topics is None else [{"name": name} for name in dict.fromkeys(topics)]
        body = {"topics": names, "allow_auto_topic_creation": create}
        answer = self.on_any(lambda connection: connection.call(ApiKey.METADATA, body))
        metadata = Metadata.of(answer)
        self._brokers = metadata.brokers
        self._controller = metadata.controller
        self._known = metadata
        return metadata

    def known_metadata(self, partitions: Collection[TopicPartition]) -> Metadata:
        """Return the last metadata if it has a leader for all of these partitions; else fetch it.

        It may be out of date. A broker that no longer leads a partition responds with an error, and
        the caller then fetches `metadata`.
        """
        known = self._known
        if known is not None and all(known.leader(each) >= 0 for each in partitions):
            return known
        return self.metadata({each.topic for each in partitions})

    def on_any(self, call: Callable[[BrokerConnection], T]) -> T:
        """Call any broker, and the next one when a broker disconnects or does not respond, for
        default.api.timeout.ms at most. The call must change nothing: it may be sent twice.

        A broker that is cut off from its cluster accepts connections and never responds, so it is
        not called again before all others have been. A cluster that has responded before is retried
        until the timeout. One that never has may not exist or may refuse this client: that error is
        raised at once.
        """
        retry = Retry(self.settings)
        silent: set[Address] = set()
        lost: ConnectionLost | None = None
        while True:
            try:
                connection = self.any(silent)
            except Unreachable as error:
                if not self._brokers:
                    raise (error if lost is None else self._with_hint(lost)) from lost
                if not retry.pause():
                    raise (error if lost is None else lost) from error
                silent.clear()
                continue
            try:
                return call(connection)
            except ConnectionLost as error:
                if retry.over:
                    raise
                silent.add(connection.address)
                lost = error

    def on_controller(self, call: Callable[[BrokerConnection], Any], codes: "Codes") -> Any:
        """Call the controller, and the new one when it has moved.

        Args:
            codes: returns the error codes of a response; NOT_CONTROLLER among them means "retry".
        """
        retry = Retry(self.settings)
        while True:
            if self._controller not in self._brokers:
                self.metadata(())
            known = self._controller in self._brokers
            try:
                connection = self.node(self._controller) if known else self.any()
            except Unreachable:
                # Nothing was sent yet: another broker may be the controller by now.
                if not retry.pause():
                    raise
                self._controller = -1
                continue
            answer = call(connection)
            if ErrorCode.not_controller not in codes(answer) or not retry.pause():
                return answer
            self._controller = -1

    def on_coordinator(
        self,
        name: str,
        call: Callable[[BrokerConnection], Any],
        codes: "Codes",
        kind: CoordinatorType = CoordinatorType.GROUP,
    ) -> Any:
        """Call the coordinator of a group, or of a transactional id, and the new one when it moved.

        A request that was lost is sent again: no request to a coordinator does harm when it is
        carried out twice.
        """
        retry = Retry(self.settings)
        while True:
            try:
                answer = call(self.node(self._coordinator(name, kind)))
            except (ConnectionLost, Unreachable):
                self._coordinators.pop((kind, name), None)
                if not self._brokers or not retry.pause():
                    raise
                continue
            if STALE_COORDINATOR.isdisjoint(codes(answer)) or not retry.pause():
                return answer
            self._coordinators.pop((kind, name), None)

    def coordinators(self, groups: Iterable[str]) -> dict[str, int]:
        """Return the id of each group's coordinator."""
        return {group: self._coordinator(group) for group in groups}

    def _coordinator(self, name: str, kind: CoordinatorType = CoordinatorType.GROUP) -> int:
        known = self._coordinators.get((kind, name))
        if known is not None:
            return known
        retry = Retry(self.settings)
        while True:
            broker = self.on_any(lambda connection: _find_coordinator(connection, name, kind))
            error = error_of(broker.error_code, broker.error_message)
            if error is None:
                break
            if error.code not in STALE_COORDINATOR or not retry.pause():
                raise error
        node_id = int(broker.node_id)
        self._brokers[node_id] = BrokerMetadata(node_id, Address(broker.host, broker.port), None)
        self._coordinators[kind, name] = node_id
        return node_id

    def _with_hint(self, lost: ConnectionLost) -> ConnectionLost:
        """Add what to check: a broker that expects TLS or SASL closes the connection silently."""
        hint = "check security.protocol and sasl.mechanism"
        if self.settings.sasl is None:
            hint = "if it asks for a login, set security.protocol and sasl.mechanism"
        return ConnectionLost(f"{lost}; {hint}")

    def _known_addresses(self) -> list[Address]:
        return [broker.address for broker in self._brokers.values()]

    def close(self) -> None:
        """Close every connection, or leave it to the next client: see `idle_connection`."""
        connections = (*self._connections.values(), self._seed)
        self._connections, self._seed = {}, None
        for connection in connections:
            if connection is not None:
                IDLE.release(connection)

    def __enter__(self) -> "ConnectionPool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


Codes = Callable[[Any], Iterable[ErrorCode]]


def _find_coordinator(connection: BrokerConnection, name: str, kind: CoordinatorType) -> Any:
    body = {"key_type": int(kind), "coordinator_keys": [name]}
    answer = connection.call(ApiKey.FIND_COORDINATOR, body, lowest=_FIRST_MANY_KEYS)
    if not answer.coordinators:
        raise BrokerError(ErrorCode.coordinator_not_available)
    return answer.coordinators[0]


def _unreachable(addresses: list[Address], problems: Sequence[Exception]) -> Unreachable:
    if not problems:
        return Unreachable("no broker answers")
    text = str(problems[0]) if len(addresses) == 1 else "; ".join(map(str, problems))
    if any("refused" in str(problem) for problem in problems):
        text += "; is the broker running? start one with: headrace up"
    return Unreachable(text)
