"""Decoded records as Spark's columns."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.records.encode import encode
from headrace.spark.source.column import SourceColumns
from headrace.spark.source.schema import check_columns, source_ddl
from headrace.spark.value.decoder import value_decoder
from headrace.spark.value.format import ValueFormat

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
ALL = to_arrow_schema(
    StructType(
        [
            StructField("key", BinaryType()),
            StructField("value", BinaryType()),
            StructField("topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("offset", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("timestampType", IntegerType()),
            StructField("headers", ArrayType(HEADER)),
        ]
    ),
    timezone="UTC",
)
CLICKS = TopicPartition("clicks", 3)


def decoded(records: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    data = encode(records, timestamp_ms=1_700_000_000_123, base_offset=40).data
    return decode(data, columns=names).columns


def rows(schema: pa.Schema, records: pa.RecordBatch) -> pa.RecordBatch:
    columns = SourceColumns(schema, CLICKS)
    return columns.rows(decoded(records, columns.decoded_names())).batch


def test_every_column_has_the_type_that_spark_asks_for() -> None:
    batch = rows(ALL, pa.record_batch({"value": [b"v", None], "key": [None, b"k"]}))

    batch.validate(full=True)
    assert batch.schema.equals(ALL)
    first, second = batch.to_pylist()
    assert first == {
        "key": None,
        "value": b"v",
        "topic": "clicks",
        "partition": 3,
        "offset": 40,
        "timestamp": pa.scalar(1_700_000_000_123_000, pa.timestamp("us", "UTC")).as_py(),
        "timestampType": 0,
        "headers": None,
    }
    assert (second["key"], second["value"], second["offset"]) == (b"k", None, 41)


def test_headers_are_lists_of_pairs_and_null_where_there_are_none() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[], [{"key": "a", "value": b"1"}, {"key": "a", "value": None}], []], kind)

    batch = rows(ALL, pa.record_batch({"value": [b"", b"", b""], "headers": headers}))

    batch.validate(full=True)
    assert batch["headers"].to_pylist() == [
        None,
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
        None,
    ]


def test_a_slice_of_headers_is_that_slice() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": str(i), "value": None}] for i in range(5)], kind)
    columns = SourceColumns(pa.schema([ALL.field("headers")]), CLICKS)
    whole = decoded(pa.record_batch({"value": [b""] * 5, "headers": headers}), ["headers"])

    batch = columns.rows(whole.slice(2, 2)).batch

    batch.validate(full=True)
    assert [each[0]["key"] for each in batch["headers"].to_pylist()] == ["2", "3"]


def test_only_what_the_schema_has_is_decoded() -> None:
    schema = pa.schema([ALL.field("topic"), ALL.field("value")])
    columns = SourceColumns(schema, CLICKS)

    assert columns.decoded_names() == ["value"]


def test_rows_can_be_counted_without_any_decoded_column() -> None:
    schema = pa.schema([ALL.field("partition")])

    batch = rows(schema, pa.record_batch({"value": [b"a", b"b"]}))

    assert batch.to_pydict() == {"partition": [3, 3]}


def test_constant_columns_grow_and_shrink_with_the_batches() -> None:
    columns = SourceColumns(pa.schema([ALL.field("topic"), ALL.field("partition")]), CLICKS)

    for count in (2, 5, 3):
        records = decoded(pa.record_batch({"value": [b""] * count}), ["offset"])
        batch = columns.rows(records).batch
        assert batch.to_pydict() == {"topic": ["clicks"] * count, "partition": [3] * count}


def test_a_time_that_microseconds_cannot_hold_is_the_last_one() -> None:
    columns = SourceColumns(pa.schema([ALL.field("timestamp")]), CLICKS)
    times = pa.array([5, 2**63 - 1, -1], pa.timestamp("ms", "UTC"))

    batch = columns.rows(pa.record_batch({"timestamp": times})).batch

    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [
        5_000,
        (2**63 - 1) // 1000 * 1000,
        -1000,
    ]


def test_headers_are_a_column_only_on_request() -> None:
    assert "headers" not in source_ddl(headers=False, value="BINARY")
    assert "headers" in source_ddl(headers=True, value="BINARY")


def test_the_corrupt_column_has_the_bytes_of_bad_values_only() -> None:
    names = ["corrupt", "value", "offset"]
    kind = pa.struct([("n", pa.int64())])
    schema = pa.schema(list(zip(names, [pa.binary(), kind, pa.int64()], strict=True)))
    decoder = value_decoder(ValueFormat.of("json", "n BIGINT", "PERMISSIVE"), kind)
    assert decoder is not None
    columns = SourceColumns(schema, CLICKS, {"value": decoder}, "corrupt")
    values = [b'{"n":1}', b"\xff", None, b"", b'{"n":2}']

    found = columns.rows(decoded(pa.record_batch({"value": values}), columns.decoded_names()))
    good = columns.rows(decoded(pa.record_batch({"value": [b"{}"]}), columns.decoded_names()))

    found.batch.validate(full=True)
    assert found.batch.schema.names == names
    assert found.batch["corrupt"].to_pylist() == [None, b"\xff", None, b"", None]
    assert found.batch["value"].to_pylist() == [{"n": 1}, None, None, None, {"n": 2}]
    assert found.bad_rows["value"].tolist() == [1, 3]
    assert good.batch["corrupt"].to_pylist() == [None]


def spark_schema(ddl: str) -> StructType:
    return StructType(
        [
            StructField(name, BinaryType() if kind == "BINARY" else StringType())
            for name, kind in (each.split() for each in ddl.split(", "))
        ]
    )


def test_a_schema_may_leave_out_columns() -> None:
    check_columns(spark_schema("value BINARY, offset BIGINT"), headers=False)
    check_columns(spark_schema("bad BINARY, value STRING"), headers=False, corrupt_column="bad")


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("value BINARY, id INT", "no column id"),
        ("headers STRING", "includeHeaders"),
        ("value STRING, bad STRING", "declare the column bad as BINARY"),
        ("offset BIGINT, bad BINARY", "needs the column value"),
    ],
)
def test_a_schema_may_not_add_columns(ddl: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_columns(spark_schema(ddl), headers=False, corrupt_column="bad")
