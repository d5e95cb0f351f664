"""The two threads of a landing."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.client.read.chunk import Chunk
from headrace.client.settings import ClientSettings
from headrace.landing.error import LandingError
from headrace.landing.lander import Lander, LandingOptions
from headrace.landing.row.choice import row_decoder
from headrace.landing.row.raw import RawDecoder
from headrace.landing.source import Source
from headrace.landing.table_factory import create_table, existing_table, open_table
from headrace.model.ids import TopicPartition
from headrace.model.table.table_name import TableName
from headrace.records.column import HEADERS, TIMESTAMP

COLUMNS = pa.schema([pa.field("id", pa.int64())])


def chunk(partition: int, offset: int, *values: bytes) -> Chunk:
    rows = len(values)
    columns = {
        "offset": pa.array(range(offset, offset + rows), pa.int64()),
        "timestamp": pa.array([1000] * rows, pa.int64()).cast(TIMESTAMP),
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array([[]] * rows, HEADERS),
    }
    place = TopicPartition("clicks", partition)
    return Chunk(place, pa.RecordBatch.from_pydict(columns), offset + rows)


def reading(**positions: int) -> Any:
    """Return a reader that has come to these positions: p0 is that of partition 0."""
    found = {TopicPartition("clicks", int(each[1:])): at for each, at in positions.items()}
    return SimpleNamespace(positions=found, ended=True)


def json_lander(name: TableName) -> Lander:
    return Lander(
        ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"}),
        Source(topic="clicks", topic_id=None, values="json"),
        row_decoder("json"),
        LandingOptions(table=name),
    )


def test_records_before_the_first_good_one_become_dead_letters(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    name = TableName.parse(f"delta:{tmp_path}/clicks")
    lander = json_lander(name)

    with ThreadPoolExecutor(1) as writer:
        lander._take(chunk(0, 4, b"x"), reading(p0=5, p1=0), writer)
        lander._take(chunk(0, 5, b"y"), reading(p0=6, p1=0), writer)
        assert open_table(name, {}) is None
        lander._take(chunk(1, 0, b'{"id": 1}'), reading(p0=6, p1=1), writer)
        assert existing_table(name, {}).offsets([0, 1]) == {0: 4, 1: 0}
        lander._commit(reading(p0=6, p1=1), writer)
        lander._drain(0)

    assert existing_table(name, {}).offsets([0, 1]) == {0: 6, 1: 1}
    assert existing_table(name, {}).status(small_bytes=1).rows == 1
    assert existing_table(name.dead_letters, {}).status(small_bytes=1).rows == 2


def test_a_topic_without_a_good_record_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lander = json_lander(TableName.parse("delta:clicks"))

    with ThreadPoolExecutor(1) as writer:
        lander._take(chunk(0, 4, b"x"), reading(p0=5), writer)
        with pytest.raises(LandingError, match="up to offset 5 shows the columns"):
            lander._copy(None, reading(p0=5), writer, lambda: False)  # type: ignore[arg-type]
        monkeypatch.setattr("headrace.landing.lander._MOST_HELD", 1)
        with pytest.raises(LandingError, match="up to offset 6 shows the columns"):
            lander._take(chunk(0, 5, b"x"), reading(p0=6), writer)


def test_offsets_that_move_without_rows_are_committed_once(tmp_path: Path) -> None:
    pytest.importorskip("deltalake")
    name = TableName.parse(f"delta:{tmp_path}/clicks")
    lander = json_lander(name)
    lander._use(create_table(name, {}, COLUMNS, lander._source, {0: 0}), {0: 0})

    with ThreadPoolExecutor(1) as writer:
        for _ in range(2):
            lander._copy(None, reading(p0=7), writer, lambda: False)  # type: ignore[arg-type]

    assert existing_table(name, {}).offsets([0]) == {0: 7}
    assert lander._committer is not None
    assert lander._committer.landed.commits == 1


def test_nothing_is_committed_behind_rows_that_were_not_written() -> None:
    lander = Lander(
        ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"}),
        Source(topic="clicks", topic_id=None),
        RawDecoder(),
        LandingOptions(table=TableName.parse("delta:clicks")),
    )
    done: list[str] = []

    def fail() -> None:
        raise LandingError("the rows were not written")

    with ThreadPoolExecutor(1) as writer:
        lander._submit(writer, lambda: done.append("before"))
        lander._submit(writer, fail)
        lander._submit(writer, lambda: done.append("commit"))

        with pytest.raises(LandingError, match="not written"):
            lander._drain(0)

    assert done == ["before"]
