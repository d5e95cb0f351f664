"""The postgres_cdc source: the changes of PostgreSQL's tables, in Debezium's envelope."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog

from headrace import __version__
from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.capture_setting import CAPTURE_SETTINGS, envelope_options
from headrace.ingest.cdc.delivery import Delivery
from headrace.ingest.cdc.envelope import Envelope
from headrace.ingest.cdc.postgres.captured_table import CapturedTable, TableFactory, TableFacts
from headrace.ingest.cdc.postgres.catalog import Catalog, PublishedTable, Slot
from headrace.ingest.cdc.postgres.change_stream import ChangeStream, ChangeWriter
from headrace.ingest.cdc.postgres.column_type import ColumnTypes
from headrace.ingest.cdc.postgres.connection import PostgresConnector
from headrace.ingest.cdc.postgres.handover import Handover
from headrace.ingest.cdc.postgres.lsn import format_lsn
from headrace.ingest.cdc.postgres.pgoutput import Relation, decode
from headrace.ingest.cdc.postgres.position import (
    CLAIMED,
    MarkNames,
    Position,
    SnapshotPart,
    TableProgress,
    format_position,
    format_progress,
    parse_position,
)
from headrace.ingest.cdc.postgres.publication_watch import PublicationWatch
from headrace.ingest.cdc.postgres.replication_stream import PublicationMissing, ReplicationStream
from headrace.ingest.cdc.postgres.snapshot_reader import SnapshotReader
from headrace.ingest.cdc.postgres.source_block import SOURCE_SCHEMA, SourceBlock
from headrace.ingest.cdc.postgres.transaction_wait import TransactionWait
from headrace.ingest.cdc.postgres.unseen_tables import UnseenTables
from headrace.ingest.cdc.table_filter import FILTER_SETTINGS, TableFilter
from headrace.ingest.cdc.table_unread import TableUnread
from headrace.ingest.error import ChannelError, DeliveryFailed, IngestError
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.settings import Settings, prefix, secret, text
from headrace.ingest.source import ReplayableSource

_log = structlog.get_logger(__name__)
_READ_SECONDS = 0.2
_STATUS_SECONDS = 1.0


class PostgresCdcSource(ReplayableSource):
    """Reads tables once, and then every change of them from a replication slot.

    Rule 1: the position is committed with the events (decision 0013), and the server forgets only
        what is committed. So every change is in the topics once, whatever is killed when.
    Rule 2: the ledger claims a slot before it is created. A slot that is there without a claim
        belongs to another program, and is never dropped.
    Rule 3: a slot that is gone, or that another program has moved, is an error: changes are lost.
        Only `slot.loss = snapshot` reads the tables again.
    Rule 4: an interrupted snapshot is continued by a later one, after the last key that was handed
        over; `handover` says which changes that later snapshot holds.
    Rule 5: a table that the stream shows first is read before its changes, unless the stream has
        all of it (`UnseenTables`).
    """

    SETTINGS = (
        text("url", "The database: postgresql://host:port/database.", required=True),
        text("username", "The user, who needs REPLICATION."),
        secret("password", "The user's password."),
        prefix("libpq", "More parameters of libpq, such as libpq.sslmode."),
        text("slot.name", "The replication slot.", "headrace"),
        text("publication.name", "The publication.", "headrace_publication"),
        text(
            "publication.autocreate.mode",
            "filtered publishes the matching tables, all_tables all; disabled requires it.",
            "filtered",
            choices=("filtered", "all_tables", "disabled"),
        ),
        text(
            "slot.loss",
            "What to do when the slot is gone: fail, or snapshot: read the tables again.",
            "fail",
            choices=("fail", "snapshot"),
        ),
        *FILTER_SETTINGS,
        *CAPTURE_SETTINGS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        url = settings.text("url").removeprefix("jdbc:")
        if not url.startswith(("postgresql://", "postgres://")):
            raise settings.wrong("url", "url must be postgresql://host:port/database")
        login = {"user": settings.optional("username"), "password": settings.optional("password")}
        try:
            self._connector = PostgresConnector(url, {**settings.below("libpq"), **login})
        except ValueError:
            raise settings.wrong(
                "url",
                "url is not one that libpq reads: write postgresql://host:port/database, and "
                "user and password in username and password",
            ) from None
        self._slot = settings.text("slot.name")
        self._publication = settings.text("publication.name")
        self._filter = TableFilter(settings)
        self._options = envelope_options(settings, SOURCE_SCHEMA)
        self._envelope = Envelope(self._options)
        self._names = MarkNames(self._slot)
        self._size = settings.number("batchSize")
        self._heartbeat_seconds = settings.number("heartbeat.interval.ms") / 1000
        self._control: Any = None
        self._stream: ReplicationStream | None = None
        self._reader: SnapshotReader | None = None
        self._rows: Iterator[EventBatch] | None = None
        self._tables: dict[str, TableProgress] = {}
        # What the batches that were handed over, or are ready to be, hold.
        self._position: Position | None = None
        self._wait = TransactionWait(name)
        # The log has changes that cannot be read, because there was no publication.
        self._unpublished = False

    # -- starting ------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.ledger is not None, "the agent connects the ledger"
        marks = self.ledger.load()
        self._delivery = Delivery(self.deliver, self.ledger)
        self._batcher = Batcher[Position](self._size, self._to_marks)
        self._tables = self._names.tables(marks)
        mark = marks.get(self._names.position)
        self._claimed = mark == CLAIMED
        self._position = None if mark is None or mark == CLAIMED else parse_position(mark)
        try:
            self._open()
        except self._connector.errors as error:
            self._close()
            raise IngestError(f"cannot capture from PostgreSQL: {_reason(error)}") from error
        except IngestError:
            self._close()
            raise

    def stop(self) -> None:
        self._close()

    def _open(self) -> None:
        """Connect, and decide with what to begin."""
        self._control = self._connector.control()
        catalog = self._catalog = Catalog(self._control)
        database = catalog.check_server()
        mode = self.settings.text("publication.autocreate.mode")
        self._forget(catalog.ensure_publication(self._publication, mode, self._filter))
        self._source = SourceBlock(__version__, self._options.prefix, database)
        types = ColumnTypes(
            catalog.type,
            decimal_mode=self.settings.text("decimal.handling.mode"),
            placeholder=self.settings.text("unavailable.value.placeholder"),
        )
        self._factory = TableFactory(self._options.prefix, types, self._facts)
        self._known_facts: dict[str, TableFacts] = {}
        slot = catalog.slot(self._slot)
        if slot is not None and (slot.plugin != "pgoutput" or slot.database != database):
            raise IngestError(
                f"slot {self._slot} is one of plugin {slot.plugin} and database {slot.database}: "
                "set slot.name to another name"
            )
        if self._position is not None:
            slot = self._check_slot(slot, self._position)
        if self._position is None:
            self._adopt(slot)
        self._watch = PublicationWatch(
            catalog, self._publication, self._filter, self.name, self._options.skipped
        )
        self._unseen = UnseenTables(catalog, self._publication)
        self._heartbeat_at = self._status_at = time.monotonic()

    def _forget(self, published: Iterable[str]) -> None:
        """Read tables again that were captured and have come back into the publication: what
        changed meanwhile was not sent."""
        returned = [each for each in published if each in self._tables]
        for each in returned:
            _log.warning("table_returned", source=self.name, table=each)
            self._tables[each] = TableProgress(again=True, rows=self._tables[each].rows)
        if returned:
            marks = {
                self._names.table(each): format_progress(self._tables[each]) for each in returned
            }
            self._batcher.ready.append(EventBatch([], [], marks))

    def _check_slot(self, slot: Slot | None, position: Position) -> Slot | None:
        """Return the slot; None where it was lost, and dropped to read the tables again."""
        if slot is None:
            problem = f"slot {self._slot} is gone"
        elif self._unpublished:
            problem = f"publication {self._publication} did not exist while tables were changed"
        elif slot.lost:
            problem = f"the server has removed the log that slot {self._slot} needs"
        elif slot.lsn > position.lsn:
            problem = f"another program has moved slot {self._slot} to {format_lsn(slot.lsn)}"
        elif (end := self._catalog.log_end()) < position.lsn:
            problem = (
                f"the server's log ends at {format_lsn(end)}, before what was read: it was "
                "restored, or another server took over"
            )
        else:
            return slot
        since = format_lsn(position.lsn)
        if self.settings.text("slot.loss") == "fail":
            raise IngestError(
                f"{problem}: changes since {since} are lost. Set slot.loss = snapshot to read the "
                "tables again; rows that were deleted meanwhile stay in the topics"
            )
        _log.error("changes_lost", source=self.name, problem=problem, since=since)
        if slot is not None:
            self._catalog.drop_slot(self._slot)
        self._position, self._claimed, self._unpublished = None, False, False
        return None

    def _adopt(self, slot: Slot | None) -> None:
        """Begin without a position: with a slot that is there, or with a claim for a new one."""
        no_data = self.settings.text("snapshot.mode") == "no_data"
        if slot is not None and not self._claimed:
            if not no_data:
                raise IngestError(
                    f"slot {self._slot} exists, and this agent has no position for it. To read the "
                    "tables first, drop it with pg_drop_replication_slot or set another slot.name; "
                    "to stream from where it is, set snapshot.mode = no_data"
                )
            self._batcher.end(Position(slot.lsn))
            self._batcher.flush()
        elif not self._claimed:
            cleared = {self._names.table(each): "" for each in self._tables}
            self._tables = {}
            claim = {**cleared, self._names.position: CLAIMED}
            self._batcher.ready.append(EventBatch([], [], claim))
            self._claimed = True

    # -- running -------------------------------------------------------------------------------

    def poll(self) -> bool:
        try:
            if self._control is None:
                self._open()
            try:
                self._delivery.run(self._batcher.ready)
            finally:
                self._confirm()
            if self._position is None:
                return self._create_slot()
            if self._rows is None and self._stream is None:
                return self._begin()
            if self._rows is not None:
                return self._read_snapshot()
            self._read_stream()
            return True
        except self._connector.errors as error:
            self._close()
            raise IngestError(f"cannot capture from PostgreSQL: {_reason(error)}") from error
        except TableUnread as unread:
            _log.info("table_not_read_yet", source=self.name, table=str(unread))
            self._batcher.flush()
            self._close()
            return True
        except PublicationMissing:
            self._close()
            self._unpublished = True
            raise
        except (ChannelError, DeliveryFailed):
            raise  # the channel or the cluster refuses, not the database
        except Exception:
            self._close()
            raise

    def _create_slot(self) -> bool:
        """Create the slot when the claim is committed."""
        assert self.ledger is not None
        if self.ledger.committed().get(self._names.position) != CLAIMED:
            return False
        if self._catalog.slot(self._slot) is not None:
            self._catalog.drop_slot(self._slot)
        replication = ReplicationStream(self._connector.replication())
        try:
            slot = replication.create_slot(self._slot)
            if self.settings.text("snapshot.mode") == "initial":
                self._reader = SnapshotReader(self._connector.control(), slot.snapshot)
        finally:
            replication.close()
        _log.info("slot_created", source=self.name, slot=self._slot, lsn=format_lsn(slot.lsn))
        self._batcher.end(Position(slot.lsn))
        self._batcher.flush()
        if self._reader is not None:
            self._rows = self._snapshot(self._reader, None)
        return True

    def _begin(self) -> bool:
        """Continue with the snapshot of tables that are not read to their ends, or stream."""
        assert self._position is not None
        if self.settings.text("snapshot.mode") == "initial" and self._unread(self._catalog):
            self._wait.begin(self._catalog)
            reader = SnapshotReader(self._connector.control(), None)
            snapshot, limit = Catalog(reader.connection).current_snapshot()
            if not self._wait.is_over(snapshot.xmin):
                reader.close()
                return False
            self._reader = reader
            self._rows = self._snapshot(reader, SnapshotPart(None, snapshot, limit))
            return True
        self._stream = ReplicationStream(self._connector.replication())
        self._stream.begin(self._slot, self._publication, self._position.lsn)
        writer = ChangeWriter(
            self._envelope,
            self._source,
            self._table_of,
            self.settings.flag("provide.transaction.metadata"),
        )
        self._batcher.drop_unfinished()
        self._changes = ChangeStream(writer, self._batcher, self._position, Handover(self._tables))
        _log.info("stream_begun", source=self.name, lsn=format_lsn(self._position.lsn))
        return True

    # -- snapshot ------------------------------------------------------------------------------

    def _unread(self, catalog: Catalog) -> list[PublishedTable]:
        tables = catalog.published(self._publication, self._filter)
        return [
            each
            for each in tables
            if each.identifier not in self._tables or not self._tables[each.identifier].done
        ]

    def _read_snapshot(self) -> bool:
        assert self._rows is not None
        batch = next(self._rows, None)
        if batch is not None:
            self._batcher.ready.append(batch)
            self._delivery.run(self._batcher.ready)
            return True
        assert self._reader is not None
        self._reader.close()
        self._reader = self._rows = None
        _log.info("snapshot_done", source=self.name)
        return True

    def _snapshot(self, reader: SnapshotReader, part: SnapshotPart | None) -> Iterator[EventBatch]:
        """Yield the rows of all unread tables, with marks after each batch.

        Args:
            part: the snapshot, None for that of the slot's beginning.
        """
        for table in self._unread(Catalog(reader.connection)):
            progress = self._continued(table)
            captured = self._factory.of_columns(
                table.schema, table.name, table.columns, table.facts, table.identity
            )
            after = progress.parts[-1].upto if progress.parts else None
            shown = part or SnapshotPart(None, None)
            parts = progress.parts
            for rows in reader.read(table, after, self._size):
                if rows.last_key is not None:
                    progress.parts = [*parts, shown._replace(upto=rows.last_key)]
                elif not progress.parts:
                    progress.parts = [shown]
                progress.rows += len(rows.rows)
                bodies = [self._row_event(captured, row) for row in rows.rows]
                yield self._marked(table, progress, bodies)
            progress.parts = [*parts, shown._replace(upto=None)]
            progress.done = True
            yield self._marked(table, progress, [])

    def _continued(self, table: PublishedTable) -> TableProgress:
        """Return the progress of a table to go on with: from its last key, or from the start."""
        old = self._tables.get(table.identifier)
        fresh = TableProgress(key=table.facts.key, file=table.file)
        if old is None:
            return fresh
        fresh.again, fresh.rows = old.again, old.rows
        if not old.parts:
            return fresh
        if old.parts[-1].upto is None or (old.key, old.file) != (fresh.key, fresh.file):
            fresh.again = True
            return fresh
        fresh.parts = old.parts
        return fresh

    def _row_event(self, captured: CapturedTable, row: Any) -> Event:
        assert self._position is not None
        table = captured.table
        source = self._source.write(
            table.schema,
            table.name,
            micros=time.time_ns() // 1000,
            lsn=self._position.lsn,
            xid=None,
            last_commit=None,
            snapshot="true",
        )
        (event,) = self._envelope.insert(table, row, source, op="r")
        return event

    def _marked(
        self, table: PublishedTable, progress: TableProgress, events: list[Event]
    ) -> EventBatch:
        self._tables[table.identifier] = replace(progress)
        batch = EventBatch.of(events)
        batch.marks = {
            self._names.table(table.identifier): format_progress(self._tables[table.identifier])
        }
        return batch

    # -- stream --------------------------------------------------------------------------------

    def _read_stream(self) -> None:
        assert self._stream is not None
        read = self._stream.read(_READ_SECONDS)
        for start, data in read.messages:
            message = decode(data)
            if message is not None:
                self._changes.feed(start, message)
        if self._heartbeat(read.wal_end) or self._batcher.has_events:
            self._batcher.flush()
        self._delivery.run(self._batcher.ready)
        self._watch.check()
        if read.reply:
            self._status_at = 0.0

    def _heartbeat(self, wal_end: int) -> bool:
        """Move the position although no captured table changes, so that the server can remove the
        log of other tables. Return whether it is time to store it."""
        now = time.monotonic()
        if now - self._heartbeat_at < self._heartbeat_seconds:
            return False
        self._heartbeat_at = now
        inside = self._changes.in_transaction or self._changes.position.transaction != 0
        if wal_end > self._changes.position.lsn and not inside:
            self._changes.position = Position(wal_end)
            self._batcher.end(self._changes.position)
        return True

    def _confirm(self) -> None:
        """Report to the server what is committed."""
        assert self.ledger is not None
        now = time.monotonic()
        if self._stream is None or now - self._status_at < _STATUS_SECONDS:
            return
        self._status_at = now
        mark = self.ledger.committed().get(self._names.position)
        if mark is not None and mark != CLAIMED:
            self._stream.confirm(parse_position(mark).lsn)

    def _table_of(self, relation: Relation) -> CapturedTable | None:
        self._unseen.saw(relation)
        if not self._filter.includes(relation.schema, relation.name):
            return None
        captured = self._factory.make(relation)
        name = captured.table.identifier
        if name not in self._tables:
            no_data = self.settings.text("snapshot.mode") == "no_data"
            if no_data or self._unseen.is_streamed(relation):
                progress = self._tables[name] = TableProgress(done=True)
                self._batcher.note({self._names.table(name): format_progress(progress)})
        return captured

    def _facts(self, relation: int, identifier: str) -> TableFacts:
        facts = self._catalog.facts(relation)
        if facts == TableFacts():  # dropped meanwhile: what it was when it was last seen
            return self._known_facts.get(identifier, facts)
        self._known_facts[identifier] = facts
        return facts

    def _to_marks(self, position: Position) -> dict[str, str]:
        """Return the marks of a batch that is finished up to a position."""
        self._position = position
        return {self._names.position: format_position(position)}

    def _close(self) -> None:
        """Close every connection; what is not handed over is read again."""
        for each in (self._stream, self._reader, self._control):
            if each is not None:
                with suppress(self._connector.errors, OSError):
                    each.close()
        self._stream = self._reader = self._control = self._rows = None
        self._wait.forget()


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
