"""What users write: names of tables, columns, partitions."""

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.landing.column_ddl import declared_columns
from headrace.landing.error import LandingError
from headrace.landing.source import Source
from headrace.landing.time_partition import TimePartition
from headrace.model.error import ConfigError, InvalidArgument
from headrace.model.table.table_name import TableKind, TableName

HOUR = 3_600_000_000


def test_a_table_is_named_by_its_kind_and_place() -> None:
    delta = TableName.parse("delta:lake/clicks/")
    iceberg = TableName.parse("iceberg:lake.shop.eu.clicks")

    assert (delta.kind, delta.path) == (TableKind.DELTA, Path("lake/clicks"))
    assert (iceberg.catalog, iceberg.identifier) == ("lake", "shop.eu.clicks")
    assert str(iceberg.dead_letters) == "iceberg:lake.shop.eu.clicks_dead_letters"


@pytest.mark.parametrize(
    "text", ["lake/clicks", "delta:", "hudi:x", "iceberg:clicks", "iceberg:db.t", "delta:s3://b/t"]
)
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"delta:PATH|CATALOG\.DB\.TABLE"):
        TableName.parse(text)


def test_columns_are_declared_as_in_spark() -> None:
    columns = declared_columns(
        "page STRING, ms INT, `a b` DECIMAL(10, 2), at TIMESTAMP,"
        " tags ARRAY<STRING>, who STRUCT<id: BIGINT, ok: BOOLEAN>"
    )

    assert columns == pa.schema(
        [
            ("page", pa.string()),
            ("ms", pa.int32()),
            ("a b", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us", tz="UTC")),
            ("tags", pa.list_(pa.string())),
            ("who", pa.struct([("id", pa.int64()), ("ok", pa.bool_())])),
        ]
    )


def test_columns_are_declared_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "clicks.json"
    file.write_text('{"page": "STRING", "a b": "ARRAY<INT>"}')

    assert declared_columns(str(file)).names == ["page", "a b"]


@pytest.mark.parametrize(
    "text",
    ["", "page", "page TEXT", "page STRING,", "page STRING ms INT", "a INT, a INT", "a ARRAY<INT"],
)
def test_what_declares_no_columns_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"columns|type"):
        declared_columns(text)


def test_deep_columns_are_refused() -> None:
    with pytest.raises(ConfigError, match="nest"):
        declared_columns("a " + "ARRAY<" * 100 + "INT" + ">" * 100)


def test_rows_are_split_by_the_hour_of_utc_also_before_1970() -> None:
    micros = [-1, 0, HOUR - 1, HOUR, None]
    rows = pa.record_batch(
        {"at": pa.array(micros, pa.timestamp("us", tz="UTC")), "row": pa.array(range(5))}
    )

    parts = dict(TimePartition.parse("hour(at)").split(rows))

    assert {number: part["row"].to_pylist() for number, part in parts.items()} == {
        -1: [0],
        0: [1, 2],
        1: [3],
        None: [4],
    }


@pytest.mark.parametrize(("unit", "text"), [("hour", "1969-12-31-23"), ("day", "1969-12-31")])
def test_a_partition_has_a_name(unit: str, text: str) -> None:
    assert TimePartition.parse(f"{unit}( at )").text(-1) == text


def test_a_table_is_partitioned_by_a_column_of_times_only() -> None:
    with pytest.raises(InvalidArgument, match="there are at"):
        TimePartition.parse("hour(page)").check(
            pa.schema([("page", pa.string()), ("at", pa.timestamp("us"))])
        )


def test_a_table_is_for_one_topic_and_one_shape() -> None:
    source = Source(topic="clicks", topic_id="one", keys=("id",))

    assert Source.of(source.as_json(), "t") == source
    with pytest.raises(LandingError, match="created again"):
        source.check(Source(topic="clicks", topic_id="two", keys=("id",)), "t")
    with pytest.raises(LandingError, match="keys id, not none"):
        source.check(Source(topic="clicks", topic_id="one"), "t")
    with pytest.raises(LandingError, match="not made by headrace land"):
        Source.of(None, "t")
