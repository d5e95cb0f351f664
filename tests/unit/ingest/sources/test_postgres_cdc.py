"""The postgres_cdc source, without a server."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.postgres.catalog import Slot
from headrace.ingest.cdc.postgres.position import (
    Position,
    SnapshotPart,
    TableProgress,
    parse_progress,
)
from headrace.ingest.error import IngestError
from headrace.ingest.settings import Settings
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
