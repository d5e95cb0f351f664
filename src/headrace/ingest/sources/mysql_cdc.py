"""The mysql_cdc source: the changes of MySQL's and MariaDB's tables, in Debezium's envelope."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import structlog

from headrace import __version__
from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.capture_setting import CAPTURE_SETTINGS, envelope_options
from headrace.ingest.cdc.delivery import Delivery
from headrace.ingest.cdc.envelope import Envelope
from headrace.ingest.cdc.mysql.change_stream import CapturedTable, ChangeStream, ChangeWriter
from headrace.ingest.cdc.mysql.column_type import MysqlColumn, column_type
from headrace.ingest.cdc.mysql.connection import MysqlCatalog, MysqlConnector, TableShape
from headrace.ingest.cdc.mysql.gtid import GtidSet
from headrace.ingest.cdc.mysql.log_reader import LogReader
from headrace.ingest.cdc.mysql.logged_table import completed
from headrace.ingest.cdc.mysql.position import (
    MarkNames,
    Position,
    SnapshotPart,
    TableProgress,
    parse_position,
    position_mark,
    progress_mark,
)
from headrace.ingest.cdc.mysql.snapshot_reader import SnapshotReader
from headrace.ingest.cdc.mysql.source_block import SourceBlock, source_schema
from headrace.ingest.cdc.mysql.statement import created_table, moves_rows
from headrace.ingest.cdc.table import Column, Table
from headrace.ingest.cdc.table_filter import TableFilter
from headrace.ingest.cdc.table_unread import TableUnread
from headrace.ingest.cdc.topic_name import topic_of
from headrace.ingest.error import ChannelError, DeliveryFailed, IngestError
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.settings import Settings, number, secret, text
from headrace.ingest.source import ReplayableSource

_log = structlog.get_logger(__name__)
# So long a server may lag behind what was handed over before its log counts as lost.
_LAG_SECONDS = 600
_MOST_CREATED = 10_000


class MysqlCdcSource(ReplayableSource):
    """Reads tables once, and then every change of them from the binary log.

    Rule 1: the position is committed with the events (decision 0013). So every change is in the
        topics once, whatever is killed when.
    Rule 2: a position whose file of the binary log is gone is an error: changes are lost. Only
        `log.loss = snapshot` reads the tables again.
    Rule 3: on another server than that of the position, its place in the log is found by the GTIDs
        of the transactions that were handed over.
    Rule 4: an interrupted snapshot is continued by a later one, after the last key that was handed
        over. Changes before the later snapshot's position are left out for the rows it read.
    Rule 5: a table that the log shows first is read before its changes, unless the log has shown
        its creation.
    """

    SETTINGS = (
        text("url", "The server: mysql://host:port.", required=True),
        text("username", "The user, who needs REPLICATION SLAVE, REPLICATION CLIENT and RELOAD."),
        secret("password", "The user's password."),
        text("ssl.ca", "Connect with TLS, and check the server by this file of certificates."),
        number("server.id", "The id as a replica, unique among them; random by default.", None),
        text("database.include.list", "Regular expressions of databases, separated by commas."),
        text("database.exclude.list", "Regular expressions of databases to leave out."),
        text("table.include.list", "Regular expressions of database.table, by commas."),
        text("table.exclude.list", "Regular expressions of database.table to leave out."),
        text(
            "log.loss",
            "What to do when the log is gone: fail, or snapshot: read the tables again.",
            "fail",
            choices=("fail", "snapshot"),
        ),
        *CAPTURE_SETTINGS,
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        url = settings.text("url").removeprefix("jdbc:")
        if not url.startswith(("mysql://", "mariadb://")):
            raise settings.wrong("url", "url must be mysql://host:port")
        try:
            self._connector = MysqlConnector(
                url,
                settings.optional("username"),
                settings.optional("password"),
                settings.optional("ssl.ca"),
            )
        except ValueError:  # its message holds parts of the URL, which may have a password
            raise settings.wrong(
                "url",
                "url is not one: write mysql://host:port, and user and password in username and "
                "password",
            ) from None
        wanted = settings.optional("server.id")
        self._server_id = int(wanted) if wanted else random.randrange(1 << 20, 1 << 31)
        self._filter = TableFilter(settings, "database")
        self._options = envelope_options(settings, source_schema("mysql"))
        self._names = MarkNames(self._options.prefix)
        self._size = settings.number("batchSize")
        self._heartbeat_seconds = settings.number("heartbeat.interval.ms") / 1000
        self._server, self._is_mariadb, self._by_gtid = "", False, False
        self._lagging_since: float | None = None
        self._control: Any = None
        self._stream: LogReader | None = None
        self._reader: SnapshotReader | None = None
        self._rows: Iterator[EventBatch] | None = None
        self._tables: dict[str, TableProgress] = {}
        self._shapes: dict[tuple[str, str], TableShape] = {}
        # What the batches that were handed over, or are ready to be, hold.
        self._position: Position | None = None

    # -- starting ------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.ledger is not None, "the agent connects the ledger"
        marks = self.ledger.load()
        self._delivery = Delivery(self.deliver, self.ledger)
        self._batcher = Batcher[Position](self._size, self._to_marks)
        self._tables = self._names.tables(marks)
        mark = marks.get(self._names.position)
        self._position = parse_position(mark) if mark else None
        try:
            self._open()
        except (self._connector.errors, OSError) as error:
            self._close()
            raise IngestError(f"cannot capture from MySQL: {error}") from error
        except IngestError:
            self._close()
            raise

    def stop(self) -> None:
        self._close()

    def _open(self) -> None:
        self._control = self._connector.open()
        self._catalog = MysqlCatalog(self._control)
        connector = self._catalog.check_server()
        self._is_mariadb = connector == "mariadb"
        self._server = self._catalog.server()
        self._by_gtid = False
        options = self._options._replace(source_schema=source_schema(connector))
        self._envelope = Envelope(options)
        self._source = SourceBlock(__version__, connector, self._options.prefix)
        self._captured: dict[tuple[str, str], tuple[tuple[str, ...], CapturedTable | None]] = {}
        # The tables that the log shows from their creation on.
        self._created: set[tuple[str, str]] = set()
        if self._position is not None:
            self._check_log(self._position)
        self._heartbeat_at = time.monotonic()

    def _check_log(self, position: Position) -> None:
        """Find the position in this server's log, or in that of another server before it."""
        if position.server is not None and position.server != self._server:
            self._take_over(position)
            return
        self._lagging_since = None
        size = self._catalog.log_files().get(position.log.file)
        if size is None:
            self._lost(position, f"the file {position.log.file} of the binary log is gone")
        elif position.log.offset > size:
            self._lost(
                position,
                f"the file {position.log.file} of the binary log ends at {size}, before what was "
                "read: the server was restored, or another one took over",
            )
        elif position.gtids is None and self._is_mariadb:
            gtids = self._catalog.gtids_at(position.log)
            self._position = position._replace(gtids=gtids, server=self._server)

    def _take_over(self, position: Position) -> None:
        """Go on with another server than the one of the position, by GTIDs."""
        if position.gtids is None:
            self._lost(
                position,
                f"server {self._server} is another than {position.server}, which was read before, "
                "and the position has no GTIDs by which to find it",
            )
            return
        logged = self._catalog.logged_gtids(mariadb=self._is_mariadb)
        written, purged, known = map(GtidSet.known, (*logged, position.gtids))
        if written is None or purged is None or known is None:
            self._lost(
                position,
                f"server {self._server} is another than {position.server}, which was read before, "
                "and there are GTIDs with tags, which cannot be followed",
            )
            return
        if (lacking := written.lacks(known)) is not None:
            self._lags(position, lacking)
            return
        self._lagging_since = None
        if (gone := known.lacks(purged)) is not None:
            self._lost(position, f"transaction {gone} was purged from the log before it was read")
            return
        self._by_gtid = True
        self._position = position.for_another_server()
        if position.server:
            _log.warning(
                "server_changed", source=self.name, server=self._server, gtids=position.gtids
            )
            self._forget_places(position)

    def _lags(self, position: Position, lacking: str) -> None:
        """Wait for a server without a transaction that was handed over; a replica catches up, and
        reading all tables again for that would be for nothing."""
        problem = (
            f"the log of server {self._server} does not have transaction {lacking}, which was "
            "handed over: the server lags behind, lost it, or does not log what it replicates "
            "(log_slave_updates)"
        )
        now = time.monotonic()
        if self._lagging_since is None:
            self._lagging_since = now
        waited = now - self._lagging_since
        if self.settings.text("log.loss") == "snapshot" and waited < _LAG_SECONDS:
            raise IngestError(
                f"{problem}. It is asked again; the tables are read again if it does not have it "
                f"in {_LAG_SECONDS - waited:.0f} s"
            )
        self._lagging_since = None
        self._lost(position, problem)

    def _check_purged(self, error: Exception) -> None:
        """Notice that MariaDB no longer has what follows the GTIDs of the position: it says so only
        when its log is asked for."""
        text = str(error).lower()
        gone = "purged" in text or "not in the master's binlog" in text
        if self._by_gtid and self._position is not None and gone:
            self._lost(self._position, f"the server refuses its log: {error}")

    def _forget_places(self, position: Position) -> None:
        """Make positions independent of the log of the server before.

        Places in two logs cannot be compared. So tables whose first reading was over by the
        position have all their changes handed over from here on, which they would have anyway;
        others are read again, or have changes that their rows hold already.
        """
        marks = {}
        for name, progress in self._tables.items():
            if not progress.parts:
                continue
            ahead = progress.position is not None and position.log < progress.position
            if ahead or not progress.done:
                _log.warning("table_changes_repeated", source=self.name, table=name)
            self._tables[name] = replace(progress, parts=[], again=True)
            marks[self._names.table(name)] = progress_mark(self._tables[name])
        marks[self._names.position] = position_mark(position.for_another_server())
        self._batcher.ready.append(EventBatch([], [], marks))

    def _lost(self, position: Position, problem: str) -> None:
        if self.settings.text("log.loss") == "fail":
            raise IngestError(
                f"{problem}: changes since {position.log.file}:{position.log.offset} are lost. Set "
                "log.loss = snapshot to read the tables again; rows that were deleted meanwhile "
                "stay in the topics"
            )
        _log.error("changes_lost", source=self.name, problem=problem)
        cleared = {self._names.table(each): "" for each in self._tables}
        self._batcher.ready.append(EventBatch([], [], {**cleared, self._names.position: ""}))
        self._tables, self._position = {}, None

    # -- running -------------------------------------------------------------------------------

    def poll(self) -> bool:
        try:
            if self._control is None:
                self._open()
            self._delivery.run(self._batcher.ready)
            if self._rows is not None:
                self._read_snapshot()
            elif self._stream is None:
                self._begin()
            else:
                self._read_stream()
            return True
        except TableUnread as unread:
            _log.info("table_not_read_yet", source=self.name, table=str(unread))
            self._batcher.flush()
            self._close()
            return True
        except (self._connector.errors, OSError) as error:
            self._close()
            self._check_purged(error)
            raise IngestError(f"cannot capture from MySQL: {error}") from error
        except (ChannelError, DeliveryFailed):
            raise  # the channel or the cluster refuses, not the database
        except Exception:
            self._close()
            raise

    def _begin(self) -> None:
        """Read the tables that are not read to their ends, or stream."""
        initial = self.settings.text("snapshot.mode") == "initial"
        if initial and self._unread(self._catalog):
            reader = self._reader = SnapshotReader(self._connector.open(), mariadb=self._is_mariadb)
            if self._position is None:
                self._batcher.end(Position(reader.log, 0, reader.gtids, self._server))
                self._batcher.flush()
            self._rows = self._snapshot(reader)
            return
        if self._position is None:
            log, gtids = self._catalog.log_end_gtids()
            if self._is_mariadb:
                gtids = self._catalog.gtids_at(log)
            self._batcher.end(Position(log, 0, gtids, self._server))
            self._batcher.flush()
        assert self._position is not None
        self._stream = LogReader(
            self._connector,
            self._server_id,
            self._position,
            mariadb=self._is_mariadb,
            by_gtid=self._by_gtid,
        )
        self._batcher.drop_unfinished()
        transactions = self.settings.flag("provide.transaction.metadata")
        writer = ChangeWriter(
            self._envelope, self._source, self._table_of, transactions, self._saw_statement
        )
        self._changes = ChangeStream(
            writer, self._batcher, self._position, self._tables, self._server
        )
        _log.info("stream_begun", source=self.name, file=self._position.log.file)

    # -- snapshot ------------------------------------------------------------------------------

    def _unread(self, catalog: MysqlCatalog) -> list[TableShape]:
        return [
            each
            for each in catalog.tables(self._filter)
            if each.identifier not in self._tables or not self._tables[each.identifier].done
        ]

    def _read_snapshot(self) -> None:
        assert self._rows is not None
        batch = next(self._rows, None)
        if batch is not None:
            self._batcher.ready.append(batch)
            self._delivery.run(self._batcher.ready)
            return
        assert self._reader is not None
        self._reader.close()
        self._reader = self._rows = None
        _log.info("snapshot_done", source=self.name)

    def _snapshot(self, reader: SnapshotReader) -> Iterator[EventBatch]:
        """Yield the rows of all unread tables, with marks after each batch."""
        for shape in self._unread(reader.catalog):
            progress = self._continued(shape)
            names = [each.name for each in shape.columns]
            captured = self._make(shape, names)
            after = progress.parts[-1].upto if progress.parts else None
            parts = progress.parts
            for rows in reader.read(shape, after, self._size):
                progress.parts = [*parts, SnapshotPart(rows.last_key, reader.log)]
                progress.rows += len(rows.rows)
                events = [self._row_event(captured.table, row, reader) for row in rows.rows]
                yield self._marked(shape, progress, events)
            progress.parts = [*parts, SnapshotPart(None, reader.log)]
            progress.done = True
            yield self._marked(shape, progress, [])

    def _continued(self, shape: TableShape) -> TableProgress:
        """Return the progress of a table to go on with: from its last key, or from the start."""
        old = self._tables.get(shape.identifier)
        fresh = TableProgress(key=shape.key, created=shape.created)
        if old is None:
            return fresh
        fresh.again, fresh.rows = old.again, old.rows
        same = (old.key, old.created) == (shape.key, shape.created)
        if old.parts and (old.parts[-1].upto is None or not same):
            fresh.again = True
        else:
            fresh.parts = old.parts
        return fresh

    def _row_event(self, table: Table, row: Any, reader: SnapshotReader) -> Event:
        source = self._source.write(
            table.schema, table.name, seconds=int(time.time()), log=reader.log, snapshot="true"
        )
        (event,) = self._envelope.insert(table, row, source, op="r")
        return event

    def _marked(
        self, shape: TableShape, progress: TableProgress, events: list[Event]
    ) -> EventBatch:
        self._tables[shape.identifier] = replace(progress)
        batch = EventBatch.of(events)
        batch.marks = {
            self._names.table(shape.identifier): progress_mark(self._tables[shape.identifier])
        }
        return batch

    # -- stream --------------------------------------------------------------------------------

    def _read_stream(self) -> None:
        assert self._stream is not None
        self._stream.read(self._changes)
        now = time.monotonic()
        due = now - self._heartbeat_at >= self._heartbeat_seconds
        if due:
            self._heartbeat_at = now
        if due or self._batcher.has_events:
            self._batcher.flush()
        self._delivery.run(self._batcher.ready)

    def _table_of(
        self,
        schema: str,
        name: str,
        columns: Sequence[str],
        described: Callable[[], TableShape] | None = None,
    ) -> CapturedTable | None:
        """Return a table with these columns; without columns, as the server has it.

        Args:
            described: returns the table as the log has it, for what the server no longer has.
        """
        if not self._filter.includes(schema, name):
            return None
        known = self._captured.get((schema, name))
        names = tuple(columns)
        if known is not None and (not names or known[0] == names):
            return known[1]
        shape = self._catalog.shape(schema, name)
        self._check_rows_read(shape)
        if shape.columns:
            self._shapes[schema, name] = shape
        else:  # dropped or renamed meanwhile: what it was when it was last seen
            shape = self._shapes.get((schema, name), shape)
        if described is not None and not shape.covers(names):
            shape = completed(shape, described())
        captured = self._make(shape, names or tuple(each.name for each in shape.columns))
        self._captured[schema, name] = (names, captured)
        return captured

    def _check_rows_read(self, shape: TableShape) -> None:
        """Mark a table that was not read and that the log has all of.

        Raises:
            TableUnread: it was renamed, say, and has rows that the log has under another name.
        """
        name, table = shape.identifier, (shape.schema, shape.name)
        initial = self.settings.text("snapshot.mode") == "initial"
        if name in self._tables or (initial and not shape.columns):  # known, or gone
            return
        if initial and table not in self._created and table in self._catalog.names(self._filter):
            raise TableUnread(name)
        progress = self._tables[name] = TableProgress(done=True)
        self._batcher.note({self._names.table(name): progress_mark(progress)})

    def _saw_statement(self, schema: str, query: str) -> None:
        """Take a statement of the log: it may have changed types or keys of tables."""
        self._captured.clear()
        if moves_rows(query) or len(self._created) >= _MOST_CREATED:
            self._created.clear()
        created = created_table(schema, query)
        if created is not None:
            self._created.add(created)

    def _make(self, shape: TableShape, names: Sequence[str]) -> CapturedTable:
        """Return a table with the columns that an event has; those that no one describes are
        texts."""
        mode = self.settings.text("decimal.handling.mode")
        described = {each.name: each for each in shape.columns}
        columns = []
        for name in names:
            column = described.get(name) or MysqlColumn(name, "", "", nullable=True)
            columns.append(Column(name, column_type(column, mode), column.nullable))
        key = shape.key if set(shape.key) <= set(names) else ()
        topic = topic_of(self._options.prefix, shape.schema, shape.name)
        places = [names.index(each) for each in key]
        table = Table(shape.schema, shape.name, topic, columns, places)
        return CapturedTable(table, shape.ordered and bool(key))

    def _to_marks(self, position: Position) -> dict[str, str]:
        """Return the marks of a batch that is finished up to a position."""
        self._position = position
        return {self._names.position: position_mark(position)}

    def _close(self) -> None:
        """Close every connection; what is not handed over is read again."""
        for each in (self._stream, self._reader, self._control):
            if each is not None:
                with suppress(self._connector.errors, OSError):
                    each.close()
        self._stream = self._reader = self._control = self._rows = None
