"""The postgres_cdc source, without a server."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.postgres.captured_table import TableFacts
from headrace.ingest.cdc.postgres.catalog import PublishedTable, Slot
from headrace.ingest.cdc.postgres.position import (
    Position,
    SnapshotPart,
    TableProgress,
    parse_progress,
)
from headrace.ingest.cdc.postgres.snapshot_reader import _cursor
from headrace.ingest.error import IngestError
from headrace.ingest.settings import SettingError, Settings
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


def test_a_connection_that_broke_is_followed_by_another_horizon() -> None:
    source = make()
    source._horizon = 77
    source._close()
    assert source._horizon == 0


@pytest.mark.parametrize(("kind", "expected"), [("r", 'FROM ONLY "s"."t"'), ("p", 'FROM "s"."t"')])
def test_a_snapshot_leaves_rows_to_the_tables_that_inherit(kind: str, expected: str) -> None:
    table = PublishedTable("s", "t", 1, "d", False, 0, (), TableFacts(), None, kind)
    assert _cursor(table, False, None).as_string(None).endswith(expected)


def test_an_invalid_url_is_not_in_the_message() -> None:
    with pytest.raises(SettingError) as raised:
        make(url="postgresql://me:%zzhidden@db:5432/shop")
    assert "hidden" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_long_wait_for_a_transaction_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    source = make()
    with structlog.testing.capture_logs() as logs:
        for seconds in (0, 59, 1, 30, 30):
            now[0] += seconds
            source._warn_of_wait(77)
    assert [(each["event"], each["transaction"]) for each in logs] == [("snapshot_waits", 77)] * 2
