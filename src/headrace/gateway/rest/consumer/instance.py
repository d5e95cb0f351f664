"""One consumer instance: a member of a group, or a reader of partitions that a client assigned.

Rule 1: it holds no records between requests. What a request does not return is fetched again.
Rule 2: it connects when it first has to, not when it is made.
Rule 3: one thread at a time uses it. `ConsumerInstances` sees to that.
Rule 4: a position moves only over records that a response holds. A client that asks for more has
processed what it got: from then on, automatic commits may commit it, every `COMMIT_SECONDS` and
before a rebalance. What a client got last, without asking for more, is committed only if it deletes
the instance itself: after a crash of the client others of the group read it again.
Rule 5: what was read for a client that has gone before its response was sent is read again.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import re2
import structlog

from headrace.client.error import ClientError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.group.member import GroupMember
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.read.offset_lookup import EARLIEST, LATEST, list_offsets
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.consumer.embedded_format import WITH_SCHEMA, write_data
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.schema.registry_serde import RegistrySerde
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

COMMIT_SECONDS: Final = 5.0
FETCH_BYTES: Final = 1 << 20
_INFLATED_BYTES: Final = 32 << 20
_POLL_MS: Final = 500
_TIMEOUT_MS: Final = 10_000
MOST_TOPICS: Final = 1000


@dataclass(frozen=True, slots=True)
class InstanceConfig:
    """What a client chose when it made the instance.

    Attributes:
        owner: the user who made it, and who alone may use it.
    """

    group: str
    name: str
    form: str
    from_start: bool
    auto_commit: bool
    request_timeout_ms: int
    owner: str = ""


class ConsumerInstance:
    """Reads for one client."""

    def __init__(
        self, config: InstanceConfig, settings: ClientSettings, schemas: RegistrySerde | None = None
    ) -> None:
        self.config = config
        self._schemas = schemas
        self._settings = replace(
            settings,
            client_id=f"{settings.client_id}-{config.name}"[:200],
            api_timeout_ms=min(settings.api_timeout_ms, _TIMEOUT_MS),
            fetch_max_bytes=FETCH_BYTES,
            partition_max_bytes=FETCH_BYTES,
        )
        self._pool: ConnectionPool | None = None
        self._member: GroupMember | None = None
        self._reader: BatchReader | None = None
        self._topics: list[str] = []
        self._pattern: Any = None
        self._may_read: Callable[[str], bool] = lambda _: True
        self._is_manual = False
        self.sources: frozenset[str] = frozenset()
        self._returned: dict[TopicPartition, int] = {}
        self._before: dict[TopicPartition, int] = {}
        self._processed: dict[TopicPartition, int] = {}
        self._committed_at = 0.0

    # -- what to read; `sources` are the topics of it

    @property
    def topics(self) -> list[str]:
        """The topics of the subscription."""
        return list(self._topics)

    @property
    def partitions(self) -> list[TopicPartition]:
        """What it reads at the moment."""
        return [] if self._reader is None else sorted(self._reader.positions)

    @property
    def must_join(self) -> bool:
        """Whether it has a subscription and no place in its group."""
        return bool(self._topics or self._pattern) and self._reader is None

    @property
    def is_member(self) -> bool:
        return self._member is not None and self._reader is not None

    def subscribe(
        self,
        topics: Iterable[str],
        pattern: str | None,
        may_read: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Subscribe to topics, or to those whose names match a pattern; without waiting.

        Args:
            may_read: asked of each topic that matches.
        """
        if self._is_manual:
            raise _illegal("partitions are assigned to it, and it cannot subscribe as well")
        wanted = sorted(set(topics))
        if len(wanted) > MOST_TOPICS:
            raise RestError(422, f"An instance subscribes to at most {MOST_TOPICS} topics.")
        compiled = None if pattern is None else _compiled(pattern)
        self._leave()
        self._topics, self._pattern, self._may_read = wanted, compiled, may_read
        self.sources = frozenset(wanted)

    def unsubscribe(self) -> None:
        """Leave the group, and forget all positions."""
        self._leave()
        self._topics, self._pattern, self._is_manual = [], None, False
        self.sources = frozenset()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a place in the group."""
        if self._topics or self._pattern is not None:
            raise RestError(
                409,
                "Illegal state: Subscription to topics, partitions and pattern are mutually "
                "exclusive",
                40903,
            )
        wanted = list(dict.fromkeys(partitions))
        self._check_partitions(wanted)
        self._is_manual = True
        self.sources = frozenset(each.topic for each in wanted)
        self._begin(wanted)

    def join(self) -> None:
        """Wait for a place in the group, and look up where to begin."""
        if not self.must_join:
            return
        topics = self._matching() if self._pattern is not None else self._topics
        if self._pattern is not None:
            self._topics = topics
            self.sources = frozenset(topics)
        if self._member is None or self._member.topics != sorted(set(topics)):
            self._member = GroupMember(self._connections(), self.config.group, topics)
        # The leader of a group is any of its members: it may assign what was not asked for.
        self._begin([each for each in self._member.join() if each.topic in self.sources])

    # -- positions

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        reader = self._reading(offsets)
        reader.positions.update(offsets)

    def seek_to_edge(self, partitions: Iterable[TopicPartition], *, is_end: bool) -> None:
        wanted = list(partitions)
        reader = self._reading(wanted)
        reader.positions.update(self._edges(wanted, is_end=is_end))

    def commit(self, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Commit offsets, or the positions after all records that were returned."""
        if offsets is None:
            offsets = {} if self._reader is None else dict(self._reader.positions)
        if not offsets:
            return
        if self._member is not None and self._reader is not None:
            if not self._member.commit(offsets):
                self._reader = None
                raise _illegal("the group has been rebalanced, read again first")
        else:
            admin = GroupAdmin(self._connections())
            for error in admin.commit(self.config.group, offsets).values():
                if error is not None:
                    raise error
        for each in offsets:
            self._returned.pop(each, None)
            self._processed.pop(each, None)
        self._committed_at = time.monotonic()

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return what the group has committed of these partitions."""
        found = GroupAdmin(self._connections()).offsets(self.config.group)
        return {each: found[each] for each in partitions if each in found}

    # -- reading

    def read(
        self, most_bytes: int, seconds: float, has_room: Callable[[], bool] = lambda: True
    ) -> bytes | None:
        """Return records as a JSON array; an empty one if none came in time, and None if some came
        and there is no room for them.

        Args:
            has_room: asked once, when records have come.

        Raises:
            RestError: it has nothing to read, or a record does not fit the format.
            ClientError: a partition cannot be read. Records of others before it are returned, and
                a later read raises it.
        """
        deadline = time.monotonic() + seconds
        rows: list[bytes] = []
        is_admitted = False
        self._note_processed()
        self._before.clear()
        while True:
            if not self._still_current():
                break
            if self._reader is None:
                raise _illegal("the consumer has no subscription and no assignment")
            left_ms = int(max(0.0, deadline - time.monotonic()) * 1000)
            if not self._reader.positions:  # more members than partitions
                time.sleep(min(left_ms, _POLL_MS) / 1000)
            polled = self._reader.poll(min(left_ms, _POLL_MS))
            if not is_admitted and any(each.data for each in polled):
                is_admitted = has_room()
                if not is_admitted:
                    return None
            for fetched in polled:
                try:
                    most_bytes -= self._add(fetched, rows, most_bytes)
                except Exception as error:
                    if not rows:
                        raise
                    log.info("rest_read_stopped", group=self.config.group, error=repr(error))
                    break
                if most_bytes <= 0:
                    break
            if rows or time.monotonic() >= deadline:
                break
        return b"[" + b",".join(rows) + b"]"

    def take_back(self) -> None:
        """Note that the client did not get what the last read returned: read it again."""
        if self._reader is not None:
            self._reader.positions.update(self._before)
        self._before.clear()
        self._returned.clear()

    def keep_alive(self) -> None:
        """Send a heartbeat if one is due; join again if the group rebalances."""
        if self.is_member and not self._still_current():
            self.join()

    def finish(self) -> None:
        """End it because its client says so, who has processed everything then."""
        self._note_processed()
        self.close()

    def close(self) -> None:
        """Leave the group, and disconnect."""
        try:
            self._leave()
        except HeadraceError as error:
            log.info("rest_consumer_left_late", group=self.config.group, error=repr(error))
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _still_current(self) -> bool:
        if self._member is None or self._reader is None:
            return True
        if self.config.auto_commit and time.monotonic() - self._committed_at > COMMIT_SECONDS:
            self._commit_automatically()
        if self._member.is_current():
            return True
        self._commit_automatically()
        self._reader = None
        return False

    def _commit_automatically(self) -> None:
        offsets = self._processed
        if not self.config.auto_commit or self._reader is None or not offsets:
            return
        try:
            if self._member is not None:
                self._member.commit(offsets)
            else:
                GroupAdmin(self._connections()).commit(self.config.group, offsets)
        except ClientError as error:
            log.info("rest_commit_failed", group=self.config.group, error=repr(error))
        self._processed.clear()
        self._committed_at = time.monotonic()

    def _note_processed(self) -> None:
        self._processed |= self._returned
        self._returned.clear()

    def _leave(self) -> None:
        self._commit_automatically()
        self._reader = None
        self._before.clear()
        self._returned.clear()
        self._processed.clear()
        if self._member is not None:
            self._member.leave()
            self._member = None

    def _begin(self, partitions: list[TopicPartition]) -> None:
        committed = GroupAdmin(self._connections()).offsets(self.config.group)
        positions = {each: committed[each] for each in partitions if each in committed}
        missing = [each for each in partitions if each not in positions]
        positions |= self._edges(missing, is_end=not self.config.from_start)
        self._before.clear()
        self._returned.clear()
        self._processed.clear()
        self._committed_at = time.monotonic()
        self._reader = BatchReader(self._connections(), positions)

    def _edges(
        self, partitions: list[TopicPartition], *, is_end: bool
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        edge = LATEST if is_end else EARLIEST
        found = list_offsets(self._connections(), dict.fromkeys(partitions, edge))
        edges = {}
        for partition, each in found.items():
            if isinstance(each, ClientError):
                raise each
            edges[partition] = each.offset
        return edges

    def _add(self, fetched: FetchedBatches, rows: list[bytes], most_bytes: int) -> int:
        """Append records; return how many bytes they are. Moves the position past them. Either
        all of this is done, or it raises and nothing is."""
        assert self._reader is not None
        partition = fetched.partition
        error = fetched.error
        if error is not None:
            if error.code is ErrorCode.offset_out_of_range:
                edges = self._edges([partition], is_end=not self.config.from_start)
                self._reader.positions.update(edges)
                return 0
            raise error
        if not fetched.data:
            return 0
        decoded = decode(
            fetched.data,
            start_offset=fetched.offset,
            aborted=fetched.aborted,
            columns=["offset", "key", "value"],
            max_inflated_bytes=_INFLATED_BYTES,
        )
        columns = decoded.columns
        added: list[bytes] = []
        used = 0
        following = max(fetched.offset, decoded.next_offset)
        head = f'{{"topic":{write_json(partition.topic).decode()},"key":'.encode()
        for offset, key, value in zip(
            columns.column("offset").to_pylist(),
            columns.column("key").to_pylist(),
            columns.column("value").to_pylist(),
            strict=True,
        ):
            size = len(key or b"") + len(value or b"")
            if (rows or added) and used + size > most_bytes:
                following = offset
                break
            tail = f',"partition":{partition.partition},"offset":{offset}}}'.encode()
            try:
                written = (self._write(key, key=True), self._write(value, key=False))
                row = b"".join((head, written[0], b',"value":', written[1], tail))
            except RestError:
                if not rows and not added:
                    raise
                following, used = offset, most_bytes
                break
            added.append(row)
            used += size
        rows += added
        self._before.setdefault(partition, fetched.offset)
        self._reader.positions[partition] = following
        self._returned[partition] = following
        return used

    def _write(self, data: bytes | None, *, key: bool) -> bytes:
        form = self.config.form
        if form in WITH_SCHEMA and self._schemas is not None:
            return self._schemas.decode(data, form, key=key)
        return write_data(data, form)

    def _matching(self) -> list[str]:
        topics = self._connections().metadata().topics
        found = [
            name
            for name, each in topics.items()
            if not each.internal
            and self._pattern.fullmatch(name) is not None
            and self._may_read(name)
        ]
        return sorted(found)[:MOST_TOPICS]

    def _reading(self, partitions: Iterable[TopicPartition]) -> BatchReader:
        if self._reader is None:
            raise _illegal("the consumer has no assignment yet")
        for each in partitions:
            if each not in self._reader.positions:
                raise _illegal(f"no current assignment for partition {each}")
        return self._reader

    def _check_partitions(self, partitions: list[TopicPartition]) -> None:
        metadata = self._connections().metadata({each.topic for each in partitions})
        for each in partitions:
            topic = metadata.topics.get(each.topic)
            if topic is None or topic.error is not None:
                raise RestError(404, "Topic not found.", 40401)
            if each.partition not in topic.partitions:
                raise RestError(404, "Partition not found.", 40402)

    def _connections(self) -> ConnectionPool:
        if self._pool is None:
            self._pool = ConnectionPool(self._settings)
        return self._pool


def _illegal(what: str) -> RestError:
    return RestError(409, f"Illegal state: {what}.", 40903)


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error:
        raise RestError(422, "topic_pattern is no regular expression.") from None
