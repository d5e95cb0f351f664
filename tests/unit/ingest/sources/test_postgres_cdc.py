"""The postgres_cdc source, without a server."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.postgres.captured_table import TableFacts
from headrace.ingest.cdc.postgres.catalog import PublishedTable, Slot
from headrace.ingest.cdc.postgres.pgoutput import Relation
from headrace.ingest.cdc.postgres.position import (
    Position,
    SnapshotPart,
    TableProgress,
    parse_progress,
)
from headrace.ingest.cdc.postgres.replication_stream import StreamRead
from headrace.ingest.cdc.postgres.snapshot_reader import _cursor
from headrace.ingest.cdc.table_unread import TableUnread
from headrace.ingest.error import IngestError
from headrace.ingest.event import Event
from headrace.ingest.settings import SettingError, Settings
from headrace.ingest.sources import postgres_cdc
from headrace.ingest.sources.postgres_cdc import PostgresCdcSource


def make(**texts: str) -> Any:
    texts = {"url": "postgresql://127.0.0.1:1/shop", "topic.prefix": "shop", **texts}
    source: Any = PostgresCdcSource("r1", Settings.from_texts(PostgresCdcSource.SETTINGS, texts))
    source._batcher = Batcher(10, source._to_marks)
    return source


def test_a_table_that_returned_into_the_publication_is_read_again() -> None:
    source = make()
    read = TableProgress([SnapshotPart(None, None)], done=True, rows=9)
    source._tables = {"public.t": read, "public.u": read}
    source._forget(["public.t", "public.new"])
    assert source._tables == {"public.t": TableProgress(again=True, rows=9), "public.u": read}
    (batch,) = source._batcher.ready
    ((key, mark),) = batch.marks.items()
    assert (key, parse_progress(mark)) == ("headrace|table|public.t", source._tables["public.t"])


def test_a_position_after_the_end_of_the_log_is_an_error() -> None:
    source = make()
    source._catalog = SimpleNamespace(log_end=lambda: 0x100)
    slot = Slot(0x50, False, False, "pgoutput", "shop")
    source._check_slot(slot, Position(0x100))
    with pytest.raises(IngestError, match="log ends at 0/100, before what was read"):
        source._check_slot(slot, Position(0x101))


def test_a_lost_slot_is_dropped_and_another_is_claimed() -> None:
    source = make(**{"slot.loss": "snapshot"})
    dropped: list[str] = []
    source._catalog = SimpleNamespace(drop_slot=dropped.append)
    source._position, source._claimed = Position(1), False
    lost = source._check_slot(Slot(0, False, True, "pgoutput", "shop"), source._position)
    assert (lost, dropped) == (None, ["headrace"])
    source._adopt(lost)
    assert source._claimed


def test_a_heartbeat_does_not_move_the_position_inside_a_transaction() -> None:
    source = make()
    source._heartbeat_at = -1e9
    inside = Position(5, transaction=9, at=7)
    source._changes = SimpleNamespace(position=inside, in_transaction=False)
    assert source._heartbeat(100)
    assert source._changes.position == inside
    source._heartbeat_at = -1e9
    source._changes.position = Position(5)
    assert source._heartbeat(100)
    assert source._changes.position == Position(100)


def test_a_connection_that_broke_is_followed_by_another_wait() -> None:
    source = make()
    source._wait.begin(SimpleNamespace(next_transaction=lambda: 77))
    assert not source._wait.is_over(76)
    source._close()
    assert source._wait.is_over(0)


class FakeStream:
    """Sends a transaction of a table that was not seen before."""

    def __init__(self) -> None:
        self.closed = False

    def read(self, seconds: float) -> StreamRead:
        return StreamRead([(1, b"whole"), (2, b"relation")], 0, False)

    def close(self) -> None:
        self.closed = True


def streaming(monkeypatch: pytest.MonkeyPatch, source: Any, unseen: Any) -> FakeStream:
    relation = Relation(9, "public", "young", "d", ())
    position = Position(50)

    def feed(start: int, message: Any) -> None:
        if message == b"relation":
            source._table_of(relation)
        else:
            source._batcher.add([Event({}, b"old")], position)
            source._batcher.end(position)

    monkeypatch.setattr(postgres_cdc, "decode", lambda data: data)
    source.ledger = SimpleNamespace(committed=dict)
    source._delivery = SimpleNamespace(run=lambda ready: None)
    source._factory = SimpleNamespace(
        make=lambda _: SimpleNamespace(table=SimpleNamespace(identifier="public.young"))
    )
    source._unseen = unseen
    source._changes = SimpleNamespace(feed=feed)
    source._control = SimpleNamespace(close=lambda: None)
    source._position, source._status_at = Position(10), time.monotonic()
    source._stream = FakeStream()
    return source._stream


def test_a_table_that_was_not_read_is_read_before_its_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def is_streamed(relation: Relation) -> bool:
        raise TableUnread(relation.name)

    source = make()
    unseen = SimpleNamespace(saw=lambda _: None, is_streamed=is_streamed)
    stream = streaming(monkeypatch, source, unseen)

    assert source.poll()

    assert stream.closed and source._stream is None
    assert source._tables == {}
    (batch,) = source._batcher.ready  # what came before it is not read again
    assert batch.bodies == [b"old"]
    assert source._position == Position(50)


def test_without_a_first_reading_a_new_table_is_streamed() -> None:
    source = make(**{"snapshot.mode": "no_data"})
    source._factory = SimpleNamespace(
        make=lambda _: SimpleNamespace(table=SimpleNamespace(identifier="public.young"))
    )
    source._unseen = SimpleNamespace(saw=lambda _: None)

    assert source._table_of(Relation(9, "public", "young", "d", ())) is not None
    assert source._tables["public.young"].done


@pytest.mark.parametrize(("kind", "expected"), [("r", 'FROM ONLY "s"."t"'), ("p", 'FROM "s"."t"')])
def test_a_snapshot_leaves_rows_to_the_tables_that_inherit(kind: str, expected: str) -> None:
    table = PublishedTable("s", "t", 1, "d", False, 0, (), TableFacts(), None, kind)
    assert _cursor(table, False, None).as_string(None).endswith(expected)


def test_an_invalid_url_is_not_in_the_message() -> None:
    with pytest.raises(SettingError) as raised:
        make(url="postgresql://me:%zzhidden@db:5432/shop")
    assert "hidden" not in str(raised.value)
    assert raised.value.__cause__ is None
