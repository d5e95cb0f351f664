"""The postgres_cdc source, without a server."""

from typing import Any

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.cdc.postgres.position import SnapshotPart, TableProgress, parse_progress
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
