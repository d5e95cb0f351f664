"""Writes batches of events to topics: durable on return, and with a transactional id exactly once.

The protocol (decision 0013). One transaction holds the records of some batches and, as records of a
compacted topic, the marks after them. A writer that starts with a transactional id first fences off
its predecessor: the coordinator aborts the open transaction or, if its commit had begun, completes
it. Only then does the writer read the marks, so they say exactly which events are in the log.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

import pyarrow as pa
import structlog

from headrace.audit.audited_writer import AuditedWriter
from headrace.audit.tally import Tally
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError, ClientError, PartitionRefused, WriteFailed
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.client.read.read_range import ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.client.write.partitioner import partition_of
from headrace.client.write.writer import Writer
from headrace.ingest.error import DeliveryFailed
from headrace.ingest.kafka.missing_topic import REFUSALS, ask_for_topics, create_topics
from headrace.ingest.kafka.small_batch import Records
from headrace.ingest.ledger import MarkCache
from headrace.model.ids import TopicPartition
from headrace.records.record import build_batch
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
POSITIONS_TOPIC = "headrace-agent-positions"
_SEPARATOR = "|"
_MARKS_PER_BATCH = 200

Marks = Mapping[str, str]


class WriterOptions(NamedTuple):
    """How a `TopicWriter` writes.

    Attributes:
        topic: is created if it is missing; other topics are, if brokers create topics for clients.
            None: all are.
    """

    acks: str = "all"
    codec: str = "none"
    transactional_id: str | None = None
    positions_topic: str = POSITIONS_TOPIC
    topic: str | None = None


class TopicWriter:
    """Writes and waits for the acknowledgement; opens a new `Writer` after a failure.

    Without a transactional id a failed write may have reached the log: a retry then writes the
    records twice. With a transactional id it does not: see `write`.

    Threads: any, one at a time: a source reads its marks while a sink writes.

    Attributes:
        audit: where acknowledged records are counted; set it before the first `open`.
        trusts_names: create every topic that is missing; set it before the first `open`, too.
    """

    def __init__(self, settings: ClientSettings, options: WriterOptions) -> None:
        identity = f"{options.positions_topic}{_SEPARATOR}{options.transactional_id}"
        self.ledger = TopicLedger(self, identity) if options.transactional_id else None
        self._settings = settings
        self._options = options
        self._writer: Writer | None = None
        self._unflushed: Writer | None = None
        self._uncertain: list[Marks] = []
        self._settled: list[Marks] = []
        self._known_topics: set[str] = set()
        self._denied: set[str] = set()
        self._lock = RLock()
        self.audit: Tally | None = None
        self.trusts_names = False

    def open(self) -> None:
        """Connect and, with a transactional id, fence off its last user and read the marks.

        Raises:
            DeliveryFailed: the cluster cannot be reached, or refuses.
        """
        with self._lock:
            if self._writer is None:
                self._open()

    def _open(self) -> None:
        options = self._options
        writer = None
        try:
            writer = self._make_writer(
                self._settings,
                acks=options.acks,
                idempotent=options.acks in ("all", "-1"),
                transactional_id=options.transactional_id,
                codec=options.codec,
                linger_ms=0,
            )
            if self.ledger is not None:
                self._create_positions_topic()
                writer.init_transactions()
                self.ledger.cache.replace(self._read_marks())
                self._settle()
        except ClientError as error:
            if writer is not None:
                _close_quietly(writer)
            raise DeliveryFailed(f"cannot write to topics: {error}") from error
        self._writer = writer

    def _make_writer(self, *args: Any, **options: Any) -> Writer:
        if self.audit is None:
            return Writer(*args, **options)
        uncounted = (self._options.positions_topic,)
        return AuditedWriter(self.audit, *args, uncounted=uncounted, **options)

    def close(self) -> None:
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                _close_quietly(writer)

    def write(self, parts: Sequence[tuple[str, pa.Table]], marks: Sequence[Marks] = ()) -> None:
        """Write tables to topics and return when every in-sync replica has them.

        Args:
            marks: the marks of the batches in the tables, in order. A transaction that failed may
                have been committed nevertheless: before a retry call `open`, and then leave out
                batches whose marks `is_settled` knows, or ask the ledger for the position.

        Raises:
            DeliveryFailed: the write failed; retry.
        """
        with self._lock:
            self.open()
            self._write(parts, marks)

    @property
    def takes_records(self) -> bool:
        """Whether `write_records` can be called: in transactions, without compression and audit."""
        return self.ledger is not None and self._options.codec == "none" and self.audit is None

    def write_records(self, records: Records, marks: Sequence[Marks] = ()) -> None:
        """Write a few records, as `write` does; they and the marks are one request to a broker.

        Raises:
            DeliveryFailed: the write failed; retry.
        """
        with self._lock:
            self.open()
            self._write_transaction(set(records), marks, lambda writer: _push(writer, records))

    def send(self, parts: Sequence[tuple[str, pa.Table]]) -> None:
        """Write tables to topics without waiting for the replicas; `flush` does that. Not for
        writers with a transactional id.

        Raises:
            DeliveryFailed: a write since the last `flush` failed; retry all since then.
        """
        assert self.ledger is None
        with self._lock:
            self.open()
            writer = self._unflushed_writer()
            self._unflushed = writer
            try:
                if missing := {topic for topic, _ in parts} - self._known_topics:
                    self._create_topics(missing)
                for topic, table in parts:
                    writer.write(table, topic)
            except ClientError as error:
                raise self._failed(error) from error

    def flush(self) -> None:
        """Return when every in-sync replica has what was sent.

        Raises:
            DeliveryFailed: a write since the last `flush` failed; retry all since then.
        """
        with self._lock:
            try:
                self._unflushed_writer().flush()
            except ClientError as error:
                raise self._failed(error) from error
            self._unflushed = None

    def _unflushed_writer(self) -> Writer:
        """Return the writer, if it is the one that has all that was sent since the last flush."""
        writer, before = self._writer, self._unflushed
        if writer is None or before not in (None, writer):
            self._unflushed = None
            raise DeliveryFailed("cannot write to topics: the connection was closed meanwhile")
        return writer

    def _failed(self, error: ClientError) -> DeliveryFailed:
        self._unflushed = None
        self.close()
        self._forget_topics(error)
        return DeliveryFailed(f"cannot write to topics: {error}")

    def _write(self, parts: Sequence[tuple[str, pa.Table]], marks: Sequence[Marks]) -> None:
        if self.ledger is None:
            self.send(parts)
            self.flush()
            return

        def write_rows(writer: Writer) -> None:
            for topic, table in parts:
                writer.write(table, topic)

        self._write_transaction({topic for topic, _ in parts}, marks, write_rows)

    def _write_transaction(
        self, topics: set[str], marks: Sequence[Marks], write_rows: Callable[[Writer], None]
    ) -> None:
        """Write rows and the marks after them in one transaction."""
        writer = self._writer
        assert writer is not None and self.ledger is not None
        merged: dict[str, str] = {}
        try:
            if missing := topics - self._known_topics:
                self._create_topics(missing)
            with writer.transaction():
                merged = _merged(marks)
                self._push_marks(writer, merged)  # first: they go with the rows in one request
                write_rows(writer)
        except ClientError as error:
            self._uncertain = list(marks)
            raise self._failed(error) from error
        self._uncertain = []
        if merged:
            self.ledger.cache.update(merged)

    def is_settled(self, marks: Marks | None) -> bool:
        """Return whether a `write` that failed has committed the batch with these marks."""
        return any(marks is each for each in self._settled)

    def _settle(self) -> None:
        assert self.ledger is not None
        if not self._uncertain:
            return
        known = self.ledger.cache.all()
        committed = all(known.get(key) == mark for key, mark in _merged(self._uncertain).items())
        self._settled = self._uncertain if committed else []
        self._uncertain = []

    def refused_topics(self, names: set[str]) -> set[str]:
        """Create missing topics; return those that senders of events name and that cannot be.

        Raises:
            DeliveryFailed: one is missing; retry.
        """
        with self._lock:
            denied = names & self._denied
            missing = names - denied - self._known_topics
            try:
                refused = self._create_topics(missing) if missing else set()
            except ClientError as error:
                raise DeliveryFailed(f"cannot write to topics: {error}") from error
            self._denied -= denied
            return refused | denied

    def _create_topics(self, names: set[str]) -> set[str]:
        """Create missing topics: those of the configuration, and those that no sender of events has
        chosen. Return those of the others that the cluster refuses."""
        others = self._named_by_senders(names)
        if names - others:
            create_topics(self._settings, names - others)
        refused = ask_for_topics(self._settings, others) if others else set()
        self._known_topics |= names - refused
        return refused

    def _forget_topics(self, error: ClientError) -> None:
        """Ask again for topics that senders of events name: a right may have been revoked. That one
        may be read but not written, as a mirror, only the failed write tells."""
        others = self._named_by_senders(self._known_topics)
        if isinstance(error, WriteFailed | PartitionRefused):
            reason = error.reason if isinstance(error, WriteFailed) else error
            if isinstance(reason, BrokerError) and reason.code in REFUSALS:
                self._denied |= others & {error.partition.topic}
        self._known_topics -= others

    def _named_by_senders(self, names: set[str]) -> set[str]:
        own = self._options.topic
        return set() if own is None or self.trusts_names else names - {own}

    # -- marks ---------------------------------------------------------------------------------

    def _push_marks(self, writer: Writer, marks: Marks) -> None:
        """Hand over marks, in batches that no topic finds too large."""
        prefix = f"{self._options.transactional_id}{_SEPARATOR}"
        records = [((prefix + key).encode(), mark.encode()) for key, mark in marks.items()]
        place = TopicPartition(self._options.positions_topic, 0)
        for start in range(0, len(records), _MARKS_PER_BATCH):
            some = records[start : start + _MARKS_PER_BATCH]
            writer.write_batch(place, build_batch(some, time.time_ns() // 1_000_000), len(some))

    def _create_positions_topic(self) -> None:
        topic = NewTopic(self._options.positions_topic, 1, configs={"cleanup.policy": "compact"})
        with ConnectionPool(self._settings) as pool:
            (error,) = Admin(pool).create_topics([topic]).values()
        if error is not None and error.code is not ErrorCode.topic_already_exists:
            raise error

    def _read_marks(self) -> dict[str, str]:
        """Read the marks of this transactional id up to the end of the topic. Open transactions of
        other writers are waited for: our marks may be after them."""
        partition = TopicPartition(self._options.positions_topic, 0)
        with ConnectionPool(self._settings) as pool:
            extent = extents(pool, [partition])[partition]
        if isinstance(extent, ClientError):
            raise extent
        if extent.start == extent.end:
            return {}
        prefix = f"{self._options.transactional_id}{_SEPARATOR}"
        marks: dict[str, str] = {}
        ranges = {partition: ReadRange(extent.start, extent.end)}
        with Reader(
            self._settings, ranges, read_committed=True, columns=["key", "value"]
        ) as reader:
            for chunk in reader:
                keys, values = (chunk.columns.column(name).to_pylist() for name in ("key", "value"))
                for key, value in zip(keys, values, strict=True):
                    if key is not None and key.startswith(prefix.encode()) and value is not None:
                        marks[key.decode().removeprefix(prefix)] = value.decode()
        return marks


class TopicLedger:
    """The marks under a writer's transactional id."""

    def __init__(self, writer: TopicWriter, identity: str) -> None:
        self.identity = identity
        self.cache = MarkCache()
        self._writer = writer

    def load(self) -> Marks:
        self._writer.open()
        return self.cache.all()

    def committed(self) -> Marks:
        return self.cache.all()


def _push(writer: Writer, records: Records) -> None:
    """Hand over a batch for each partition."""
    now_ms = time.time_ns() // 1_000_000
    for topic, pairs in records.items():
        count = writer.partition_count(topic)
        placed: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
        for key, value in pairs:
            placed.setdefault(partition_of(key, count), []).append((key, value))
        for index, rows in placed.items():
            batch = build_batch(rows, now_ms)
            writer.write_batch(TopicPartition(topic, index), batch, len(rows))


def _merged(marks: Sequence[Marks]) -> dict[str, str]:
    merged: dict[str, str] = {}
    for each in marks:
        merged.update(each)
    return merged


def _close_quietly(writer: Writer) -> None:
    try:
        writer.close()
    except ClientError as error:
        _log.info("writer_closed_with_error", reason=str(error))
