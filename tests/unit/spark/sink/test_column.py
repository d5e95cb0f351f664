import pickle

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headrace.model.error import InvalidArgument
from headrace.spark.sink.column import SinkColumns

_HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


def _schema(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_takes_every_column_that_the_kafka_connector_takes() -> None:
    schema = _schema(
        key=StringType(),
        value=BinaryType(),
        headers=_HEADERS,
        partition=IntegerType(),
        topic=StringType(),
    )

    columns = pickle.loads(pickle.dumps(SinkColumns(schema, None)))
    row = {"key": "k", "value": b"v", "headers": [{"key": "h", "value": b"1"}], "partition": 2}
    ((_, records),) = columns.split(pa.RecordBatch.from_pylist([row | {"topic": "t"}]))

    assert records.to_pylist() == [row]


@pytest.mark.parametrize(
    ("types", "topic", "message"),
    [
        ({"key": StringType()}, "t", "required attribute 'value' not found: the rows have key"),
        ({"value": StringType()}, None, "topic option required"),
        ({"value": LongType()}, "t", "value attribute unsupported type bigint"),
        ({"value": StringType(), "key": LongType()}, "t", r"must be a\(n\) string or binary"),
        ({"value": StringType(), "topic": LongType()}, None, "topic attribute unsupported type"),
        ({"value": StringType(), "partition": LongType()}, "t", r"must be a\(n\) int"),
        ({"value": StringType(), "headers": StringType()}, "t", "headers attribute unsupported"),
    ],
)
def test_says_which_column_is_wrong(
    types: dict[str, DataType], topic: str | None, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        SinkColumns(_schema(**types), topic)


def test_the_option_wins_over_the_column() -> None:
    columns = SinkColumns(_schema(value=StringType(), topic=LongType()), "chosen")
    rows = pa.record_batch({"value": ["a", "b"], "topic": [1, None]})

    assert [(name, part.num_rows) for name, part in columns.split(rows)] == [("chosen", 2)]


def test_rows_go_to_the_topic_they_name_in_their_order() -> None:
    columns = SinkColumns(_schema(topic=StringType(), value=StringType()), None)
    rows = pa.record_batch({"topic": ["x", "y", "x"], "value": ["1", "2", "3"]})

    found = {name: part.column("value").to_pylist() for name, part in columns.split(rows)}

    assert found == {"x": ["1", "3"], "y": ["2"]}


def test_a_row_without_a_topic_is_an_error() -> None:
    columns = SinkColumns(_schema(topic=StringType(), value=StringType()), None)
    rows = pa.record_batch({"topic": ["x", None], "value": ["1", "2"]})

    with pytest.raises(InvalidArgument, match="null topic present in the data"):
        list(columns.split(rows))


def test_other_columns_are_not_looked_at() -> None:
    columns = SinkColumns(_schema(value=StringType(), colour=LongType()), "t")
    rows = pa.record_batch({"value": ["1"], "colour": [7]})

    ((_, records),) = columns.split(rows)

    assert records.schema.names == ["value"]
