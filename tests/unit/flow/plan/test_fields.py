"""Fields, written as Spark's DDL."""

import pyarrow as pa
import pytest

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields


def test_names_and_types_are_read_from_ddl() -> None:
    fields = Fields.parse("word STRING, n bigint")

    assert fields.schema == pa.schema([("word", pa.string()), ("n", pa.int64())])
    assert fields.ddl == "word STRING, n BIGINT"


def test_bare_names_are_strings() -> None:
    assert Fields.parse(["word", "page"]) == Fields.parse("word STRING, page STRING")


@pytest.mark.parametrize(
    ("ddl", "kind"),
    [
        ("x ARRAY<INT>", pa.list_(pa.int32())),
        ("x MAP<STRING, DOUBLE>", pa.map_(pa.string(), pa.float64())),
        (
            "x STRUCT<a: INT, b: ARRAY<STRING>>",
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
        ),
        ("x DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("x TIMESTAMP", pa.timestamp("us", tz="UTC")),
    ],
)
def test_nested_types_are_read(ddl: str, kind: pa.DataType) -> None:
    assert Fields.parse(ddl).schema.field("x").type == kind


@pytest.mark.parametrize(
    ("ddl", "complaint"),
    [
        ("word", "ends too early"),
        ("word TEXT", "TEXT is not a type"),
        ("word STRING n BIGINT", "'n' stands where ',' should"),
        ("word STRING,", "ends too early"),
        ("word STRING; n INT", "is neither a name nor a type"),
        ("word STRING, word INT", "declared twice"),
        ("_word STRING", "the underscore is the engine's"),
        ("x ARRAY<INT", "ends too early"),
    ],
)
def test_what_cannot_be_read_is_named(ddl: str, complaint: str) -> None:
    with pytest.raises(FlowError, match=complaint):
        Fields.parse(ddl)
