"""From the messages of a replication stream to batches of events.

Rule 1: a transaction that was handed over in part is sent again from its begin. The position names
    its last change that was; changes up to it are counted and left out.
Rule 2: changes that a snapshot's rows hold already are left out (`handover`). An update that moves
    a row between two keys is a delete or an insert if only one of them is left out.
Rule 3: the position after a commit is its end, whatever was left out before it.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.envelope import Envelope
from headrace.ingest.cdc.postgres.captured_table import CapturedTable
from headrace.ingest.cdc.postgres.handover import Handover
from headrace.ingest.cdc.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Origin,
    Relation,
    Truncate,
    Update,
    Values,
)
from headrace.ingest.cdc.postgres.position import Position
from headrace.ingest.cdc.postgres.source_block import SourceBlock
from headrace.ingest.cdc.table import UNCHANGED
from headrace.ingest.error import ProtocolError
from headrace.ingest.event import Event

_KEY_ONLY: Final = "K"


class ChangeWriter(NamedTuple):
    """What turns changes into events.

    Attributes:
        tables: returns the table of a Relation message, or None for one that is not captured.
        transactions: whether events carry transaction metadata.
    """

    envelope: Envelope
    source: SourceBlock
    tables: Callable[[Relation], CapturedTable | None]
    transactions: bool = False


class ChangeStream:
    """Takes the messages of one connection, in order.

    Attributes:
        position: what the batches so far hold, with the one that is being filled.
        in_transaction: whether the last message was inside a transaction.
    """

    def __init__(
        self,
        writer: ChangeWriter,
        batcher: Batcher[Position],
        position: Position,
        handover: Handover,
    ) -> None:
        self._writer = writer
        self._batcher = batcher
        self._handover = handover
        self._tables: dict[int, CapturedTable | None] = {}
        self._begin = Begin(0, 0, 0)
        self._origin: tuple[str, int] | None = None
        self._at = 0
        self._index = 0
        self._resume: tuple[int, int] | None = None
        self._counts: dict[str, int] = {}
        self.position = position
        self.in_transaction = False

    def feed(self, wal_start: int, message: Message) -> None:
        """Take one message.

        Raises:
            ProtocolError: a change before the columns of its table.
        """
        match message:
            case Begin():
                self._begin_transaction(message)
            case Commit():
                self._end_transaction(message)
            case Origin():
                self._origin = message.name, message.lsn
            case Relation():
                self._tables[message.id] = self._writer.tables(message)
            case _:
                self._change(wal_start, message)

    def _begin_transaction(self, begin: Begin) -> None:
        self._begin, self.in_transaction, self._origin = begin, True, None
        self._at = self._index = 0
        self._counts = {}
        self._resume = None
        if begin.final_lsn < self.position.lsn:
            self._resume = (2**64, 0)  # all of it was handed over
        elif begin.final_lsn == self.position.transaction:
            self._resume = (self.position.at, self.position.nth)
        elif self._writer.transactions:
            self.position = Position(self.position.lsn, begin.final_lsn, 0, -1)
            self._batcher.add([self._transaction_event("BEGIN")], self.position)

    def _end_transaction(self, commit: Commit) -> None:
        whole = self._resume is not None and self._resume[0] == 2**64
        if self._writer.transactions and not whole:
            event = self._transaction_event("END", self._counts)
            self._batcher.add([event], self.position)
        self.in_transaction = False
        self._resume = None
        self.position = Position(max(commit.end_lsn, self.position.lsn))
        self._batcher.end(self.position)

    def _transaction_event(self, status: str, counts: Mapping[str, int] | None = None) -> Event:
        return self._writer.envelope.transaction_event(
            status,
            self._transaction_id,
            self._begin.commit_us // 1000,
            None if counts is None else list(counts.items()),
        )

    @property
    def _transaction_id(self) -> str:
        return f"{self._begin.xid}:{self._begin.final_lsn}"

    def _change(self, wal_start: int, message: Insert | Update | Delete | Truncate) -> None:
        self._index = self._index + 1 if wal_start == self._at else 0
        self._at = wal_start
        resume = self._resume
        known = resume is not None and (wal_start, self._index) <= resume
        if isinstance(message, Truncate):
            events = [event for each in message.relations for event in self._truncated(each, known)]
        else:
            captured = self._captured(message.relation)
            if captured is None:
                return
            events = self._events(captured, message, known)
        if events:
            self.position = Position(
                self.position.lsn, self._begin.final_lsn, wal_start, self._index
            )
            self._batcher.add(events, self.position)

    def _captured(self, relation: int) -> CapturedTable | None:
        try:
            return self._tables[relation]
        except KeyError:
            raise ProtocolError(f"a change of relation {relation} before its columns") from None

    def _truncated(self, relation: int, known: bool) -> list[Event]:
        captured = self._captured(relation)
        if captured is None:
            return []
        begin, name = self._begin, captured.table.identifier
        if self._handover.holds_truncate(name, begin.xid, begin.final_lsn):
            return []
        source, transaction = self._blocks(captured)
        if known:
            return []
        return self._writer.envelope.truncate(captured.table, source, transaction)

    def _events(
        self, captured: CapturedTable, change: Insert | Update | Delete, known: bool
    ) -> list[Event]:
        table, envelope = captured.table, self._writer.envelope
        if isinstance(change, Update):
            fill_unchanged(change)
        filtered = self._filtered(captured, change)
        if filtered is None:
            return []
        source, transaction = self._blocks(captured)
        if known:
            return []
        match filtered:
            case Insert(row=row):
                return envelope.insert(table, row, source, transaction)
            case Update(kind=kind, old=old, row=row):
                key_only = kind == _KEY_ONLY
                return envelope.update(table, old, row, source, transaction, key_only=key_only)
            case Delete(kind=kind, old=old):
                key_only = kind == _KEY_ONLY
                return envelope.delete(table, old, source, transaction, key_only=key_only)

    def _blocks(self, captured: CapturedTable) -> tuple[str, str]:
        """Return the source block and the transaction block, and count the change."""
        table, begin = captured.table, self._begin
        transaction = "null"
        if self._writer.transactions:
            count = self._counts[table.identifier] = self._counts.get(table.identifier, 0) + 1
            total = sum(self._counts.values())
            transaction = (
                f'{{"id":"{self._transaction_id}","total_order":{total},'
                f'"data_collection_order":{count}}}'
            )
        source = self._writer.source.write(
            table.schema,
            table.name,
            micros=begin.commit_us,
            lsn=self._at,
            xid=begin.xid,
            last_commit=self.position.lsn,
            origin=self._origin,
        )
        return source, transaction

    def _filtered(
        self, captured: CapturedTable, change: Insert | Update | Delete
    ) -> Insert | Update | Delete | None:
        """Return what of a change the snapshots' rows do not hold."""
        name, final = captured.table.identifier, self._begin.final_lsn
        if self._handover.is_over(final) or not self._handover.concerns(name):
            return change
        match change:
            case Insert(row=row):
                return None if self._holds(captured, row) else change
            case Delete(old=old):
                return None if self._holds(captured, old) else change
            case Update(relation=relation, old=None, row=row):
                return None if self._holds(captured, row) else change
            case Update(relation=relation, kind=kind, old=old, row=row):
                assert old is not None
                held = self._holds(captured, old), self._holds(captured, row)
                if held == (True, True):
                    return None
                if held == (True, False):
                    return Insert(relation, row)
                return Delete(relation, kind, old) if held[1] else change

    def _holds(self, captured: CapturedTable, row: Values) -> bool:
        table = captured.table
        key = tuple(row[at].decode() if isinstance(row[at], bytes) else "" for at in table.key)
        types = captured.key_types
        return self._handover.holds(
            table.identifier, key, types, self._begin.xid, self._begin.final_lsn
        )


def fill_unchanged(update: Update) -> None:
    """Take values that were not sent because they did not change from the old row, which holds
    them with REPLICA IDENTITY FULL."""
    if update.kind != "O" or update.old is None:
        return
    for at, value in enumerate(update.row):
        if value is UNCHANGED:
            update.row[at] = update.old[at]
