"""From the events of a binary log to batches of events.

Rule 1: positions are those between transactions, with the number of changed rows since. A restart
    reads the transaction again and leaves out so many rows: a binary log never changes. Another
    server may log other transactions before it, so there its id says which rows to leave out.
Rule 2: the ids of transactions (GTIDs) are collected, so that another server can go on. Where one
    is missing they are forgotten: a wrong set would leave out changes or repeat them.
Rule 3: changes that a snapshot's rows hold already are left out, by the position of their
    transaction. An update that moves a row between two keys is a delete or an insert if only one of
    them is left out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.envelope import Envelope
from headrace.ingest.cdc.mysql.connection import TableShape
from headrace.ingest.cdc.mysql.gtid import GtidSet
from headrace.ingest.cdc.mysql.position import LogPosition, Position, TableProgress
from headrace.ingest.cdc.mysql.source_block import SourceBlock
from headrace.ingest.cdc.mysql.statement import calls_function, truncated_table, written_tables
from headrace.ingest.cdc.table import Row, Table
from headrace.ingest.error import IngestError
from headrace.ingest.event import Event

_AS_STATEMENT: Final = (
    "rows were written with binlog_format = STATEMENT or MIXED, so that they are not in the binary "
    "log: set binlog_format = ROW on the server and in all sessions, and read the tables again "
    "with another topic.prefix"
)


class RowChange(NamedTuple):
    """One changed row of the binary log, by the names of its columns.

    Attributes:
        before: None for an insert.
        after: None for a delete.
        problem: why the row is not whole; None if it is.
        described: returns the table as the log describes it.
    """

    schema: str
    table: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    problem: str | None = None
    described: Callable[[], TableShape] | None = None


class CapturedTable(NamedTuple):
    """A table, and whether keys of its rows are integers."""

    table: Table
    ordered: bool


class ChangeWriter(NamedTuple):
    """What turns changes into events.

    Attributes:
        tables: returns the table of these columns, or None for one that is not captured; the last
            argument is `RowChange.described`.
        transactions: whether events carry transaction metadata.
        on_statement: takes the schema and the text of every statement: it may have changed the
            types or keys of tables, or made some.
    """

    envelope: Envelope
    source: SourceBlock
    tables: Callable[
        [str, str, Sequence[str], Callable[[], TableShape] | None], CapturedTable | None
    ]
    transactions: bool = False
    on_statement: Callable[[str, str], None] = lambda schema, query: None


class ChangeStream:
    """Takes the changes of one connection, in order.

    Args:
        server: the one that is read from.

    Attributes:
        position: what the batches so far hold, with the one that is being filled.
        in_transaction: whether the last change was inside a transaction.
    """

    def __init__(
        self,
        writer: ChangeWriter,
        batcher: Batcher[Position],
        position: Position,
        progress: Mapping[str, TableProgress],
        server: str | None = None,
    ) -> None:
        self._writer = writer
        self._batcher = batcher
        self._progress = progress
        self._skip = position.rows
        self._partly = dict(position.partly)
        self._rows = 0
        self._gtid: str | None = None
        self._gtids = GtidSet.known(position.gtids)
        self._server = server
        self._counts: dict[str, int] = {}
        self._begun = position.rows > 0
        # The event of the transaction's begin, which goes with the events of its first row.
        self._opening: list[Event] = []
        self.position = position if self._gtids is not None else position._replace(gtids=None)
        self.in_transaction = False

    def begin(self, gtid: str | None, start: LogPosition | None = None) -> None:
        """Take the id of the next transaction, and where it begins.

        A stream by GTIDs is sent as if from the beginning of a file, so only its first id says
        where that one begins: snapshots of this server are compared with it.
        """
        self._gtid = gtid
        if start is not None and self.position.server == "":
            self.position = self.position._replace(log=start)
        if gtid is not None and gtid in self._partly:
            self._skip = max(self._skip, self._partly[gtid])
            self._begun = True

    def rows(self, changes: Sequence[RowChange], end: int, seconds: int, server_id: int) -> None:
        """Take the rows of one event, which ends at `end`."""
        self.in_transaction = True
        for number, change in enumerate(changes):
            self._rows += 1
            known = self._rows <= self._skip
            self._change(change, number, end, seconds, server_id, known)

    def end(self, log: LogPosition, seconds: int = 0) -> None:
        """End a transaction; `log` is the position after it."""
        if self._counts and self._writer.transactions:
            self._batcher.add([self._transaction_event("END", seconds)], self.position)
        self.position = self._after(log)
        self.in_transaction = self._begun = False
        self._rows = self._skip = 0
        self._counts, self._gtid = {}, None
        self._batcher.end(self.position)

    def moved(self, log: LogPosition) -> None:
        """Take the beginning of another file of the log, or of the first one that is sent."""
        if log == self.position.log or self.in_transaction:
            return
        self.position = self.position._replace(log=log)
        if not self.position.rows:  # else the rest of that transaction follows
            self._batcher.end(self.position)

    def statement(self, schema: str, query: str, log: LogPosition, seconds: int) -> None:
        """Take a statement that is not BEGIN or COMMIT: TRUNCATE has an event.

        Raises:
            IngestError: it may write rows of a captured table, which are not in the log.
        """
        self._writer.on_statement(schema, query)
        for table in written_tables(schema, query):
            self._refuse(*table, _AS_STATEMENT)
            # So are the names of a server with lower_case_table_names = 1.
            self._refuse(table.schema.lower(), table.name.lower(), _AS_STATEMENT)
        if calls_function(query):
            raise IngestError(f"{schema}: in a stored function {_AS_STATEMENT}")
        if self.in_transaction:  # more of it may follow, so its id does not name this place
            self._gtids = None
        emptied = truncated_table(schema, query)
        if emptied is not None and self.position.rows == 0:
            captured = self._writer.tables(*emptied, (), None)
            if captured is not None and not self._holds_truncate(captured.table):
                source = self._source(captured.table, 0, log.offset, seconds, 0)
                events = self._writer.envelope.truncate(captured.table, source)
                if events:
                    self._batcher.add(events, self._after(log))
        self.end(log, seconds)

    def _refuse(self, schema: str, table: str, problem: str) -> None:
        """Raise what is wrong with a change, if its table is captured."""
        if self._writer.tables(schema, table, (), None) is not None:
            raise IngestError(f"{schema}.{table}: {problem}")

    def _after(self, log: LogPosition) -> Position:
        """Return the position after the transaction, which ends at `log`."""
        if self._gtid is None:
            self._gtids = None
        else:
            self._partly.pop(self._gtid, None)
        if self._gtids is not None and self._gtid is not None:
            self._gtids.add(self._gtid)
        gtids = None if self._gtids is None else str(self._gtids)
        return Position(log, 0, gtids, self._server, partly=tuple(self._partly.items()))

    def _change(
        self, change: RowChange, number: int, end: int, seconds: int, server_id: int, known: bool
    ) -> None:
        if change.problem is not None:
            self._refuse(change.schema, change.table, change.problem)
            return
        names = tuple((change.after if change.after is not None else change.before) or ())
        captured = self._writer.tables(change.schema, change.table, names, change.described)
        if captured is None:
            return
        table = captured.table
        kept = self._kept(captured, _row(change.before), _row(change.after))
        if kept == (None, None):
            return
        transaction = self._transaction_block(table, seconds)
        if known:
            return
        self.position = self.position._replace(rows=self._rows, gtid=self._gtid)
        source = self._source(table, number, end, seconds, server_id)
        events = [*self._opening, *self._events(table, *kept, source, transaction)]
        self._opening = []
        if events:
            self._batcher.add(events, self.position)

    def _events(
        self, table: Table, before: Row | None, after: Row | None, source: str, transaction: str
    ) -> list[Event]:
        envelope = self._writer.envelope
        if after is None:
            assert before is not None
            return envelope.delete(table, before, source, transaction)
        if before is None:
            return envelope.insert(table, after, source, transaction)
        return envelope.update(table, before, after, source, transaction)

    def _kept(
        self, captured: CapturedTable, before: Row | None, after: Row | None
    ) -> tuple[Row | None, Row | None]:
        """Return what of a change the snapshots' rows do not hold."""
        progress = self._progress.get(captured.table.identifier)
        if progress is None or not progress.parts:
            return before, after
        return (
            None if before is None or self._holds(progress, captured, before) else before,
            None if after is None or self._holds(progress, captured, after) else after,
        )

    def _holds(self, progress: TableProgress, captured: CapturedTable, row: Row) -> bool:
        key = tuple(int(row[at]) for at in captured.table.key) if captured.ordered else ()
        return progress.holds(key, self.position.log)

    def _holds_truncate(self, table: Table) -> bool:
        progress = self._progress.get(table.identifier)
        if progress is None or progress.again or progress.position is None:
            return False
        return self.position.log < progress.position

    def _source(self, table: Table, row: int, end: int, seconds: int, server_id: int) -> str:
        return self._writer.source.write(
            table.schema,
            table.name,
            seconds=seconds,
            log=LogPosition(self.position.log.file, end),
            row=row,
            gtid=self._gtid,
            server_id=server_id,
        )

    @property
    def _transaction_id(self) -> str:
        log = self.position.log
        return self._gtid or f"file={log.file},pos={log.offset}"

    def _transaction_block(self, table: Table, seconds: int) -> str:
        if not self._writer.transactions:
            return "null"
        if not self._begun:
            self._begun = True
            self._opening = [self._transaction_event("BEGIN", seconds)]
        count = self._counts[table.identifier] = self._counts.get(table.identifier, 0) + 1
        total = sum(self._counts.values())
        return (
            f'{{"id":"{self._transaction_id}","total_order":{total},'
            f'"data_collection_order":{count}}}'
        )

    def _transaction_event(self, status: str, seconds: int) -> Event:
        counts = list(self._counts.items()) if status == "END" else None
        return self._writer.envelope.transaction_event(
            status, self._transaction_id, seconds * 1000, counts
        )


def _row(values: Mapping[str, Any] | None) -> Row | None:
    return None if values is None else list(values.values())
