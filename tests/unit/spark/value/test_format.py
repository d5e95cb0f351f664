"""Values decoded into columns."""

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headrace.model.error import ConfigError
from headrace.spark.value.decoder import BadValue, value_decoder
from headrace.spark.value.format import ValueFormat

PAGE = pa.struct([("page", pa.string()), ("ms", pa.int64())])
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Click",
        "fields": [
            {"name": "page", "type": "string"},
            {"name": "ms", "type": ["null", "long"]},
        ],
    }
)


def decoded(
    name: str, values: list[bytes | None], kind: pa.DataType = PAGE, mode: str = "PERMISSIVE"
) -> list[Any]:
    schema = AVRO if name == "avro" else "page STRING, ms BIGINT"
    decode = value_decoder(ValueFormat.of(name, None if name == "string" else schema, mode), kind)
    assert decode is not None
    column = decode(pa.array(values, pa.binary()))
    column.validate(full=True)
    assert column.type == kind
    return list(column.to_pylist())


def avro(page: str, ms: int | None) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(AVRO), {"page": page, "ms": ms})
    return out.getvalue()


def test_raw_values_stay_as_they_are() -> None:
    assert value_decoder(ValueFormat.of("raw", None, "PERMISSIVE"), pa.binary()) is None


def test_json_fields_are_found_by_name() -> None:
    values = [b'{"ms": 5, "page": "a", "more": [1]}', b' {"page":"b"}\n', None, b"{}"]

    assert decoded("json", values) == [
        {"page": "a", "ms": 5},
        {"page": "b", "ms": None},
        None,
        {"page": None, "ms": None},
    ]


def test_json_may_be_written_over_several_lines() -> None:
    assert decoded("json", [b'{\n "page":\n "a"\n}', b'{"ms":1}']) == [
        {"page": "a", "ms": None},
        {"page": None, "ms": 1},
    ]


def test_json_has_nested_values_dates_and_decimals() -> None:
    kind = pa.struct(
        [
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("tags", pa.list_(pa.field("element", pa.string()))),
            ("at", pa.struct([("x", pa.float64())])),
        ]
    )
    value = b'{"day":"2026-11-15","price":"12.50","tags":["a","b"],"at":{"x":1.5}}'

    (found,) = decoded("json", [value], kind)

    assert str(found["day"]) == "2026-11-15"
    assert found["price"] == Decimal("12.50")
    assert (found["tags"], found["at"]) == (["a", "b"], {"x": 1.5})


BAD_JSON = [
    b"",
    b"no json",
    b"[1]",
    b'{"page":"a"',
    b'{"page":"a"} {"page":"b"}',
    b'{"page":"}',
    b'{"page":"a\nb"}',
    b'{"ms":"five"}',
    b'{"ms":1.5}',
    b'{"page":"\xff"}',
    b'{"page":"a"}}',
]


@pytest.mark.parametrize("bad", BAD_JSON)
def test_bad_json_is_null_and_its_neighbours_are_not(bad: bytes) -> None:
    good = b'{"page":"a","ms":1}'

    found = decoded("json", [good, bad, good, None, good])

    click = {"page": "a", "ms": 1}
    assert found == [click, None, click, None, click]


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [None, b'{"page":"a","ms":1}', b'{"page":"}', b'{"a":{"b":1}', b"}", *BAD_JSON]
        )
        | st.binary(max_size=6)
    )
)
def test_json_values_never_slide_into_other_rows(values: list[bytes | None]) -> None:
    together = decoded("json", values)

    assert together == [decoded("json", [value])[0] for value in values]


def test_csv_fields_are_found_by_place() -> None:
    values = [b"a,1", b'"b,c",', b'"",2\n', None, b'"two\nlines",3']

    assert decoded("csv", values) == [
        {"page": "a", "ms": 1},
        {"page": "b,c", "ms": None},
        {"page": "", "ms": 2},
        None,
        {"page": "two\nlines", "ms": 3},
    ]


@pytest.mark.parametrize("bad", [b"", b"a", b"a,1,2", b"a,one", b'"a,1', b"a,1\nb,2", b"\xff,1"])
def test_bad_csv_is_null_and_its_neighbours_are_not(bad: bytes) -> None:
    found = decoded("csv", [b"a,1", bad, b"a,1"])

    assert found == [{"page": "a", "ms": 1}, None, {"page": "a", "ms": 1}]


@settings(deadline=None)
@given(st.lists(st.none() | st.text('a1,"\n\r ', max_size=8).map(str.encode)))
def test_csv_values_never_slide_into_other_rows(values: list[bytes | None]) -> None:
    together = decoded("csv", values)

    assert together == [decoded("csv", [value])[0] for value in values]


def test_avro_values_have_their_schemas_fields() -> None:
    assert decoded("avro", [avro("a", 5), None, avro("b", None)]) == [
        {"page": "a", "ms": 5},
        None,
        {"page": "b", "ms": None},
    ]


def test_avro_has_maps_times_and_decimals() -> None:
    fields = [
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "wait", "type": {"type": "int", "logicalType": "time-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        },
        {"name": "raw", "type": {"type": "fixed", "name": "F", "size": 1}},
    ]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    value_format = ValueFormat.of("avro", schema, "PERMISSIVE")
    kind = pa.struct(
        [
            ("counts", pa.map_(pa.string(), pa.int32())),
            ("at", pa.timestamp("us", "UTC")),
            ("wait", pa.int32()),
            ("price", pa.decimal128(4, 2)),
            ("raw", pa.binary()),
        ]
    )
    decode = value_decoder(value_format, kind)
    assert decode is not None

    good = b"\x02\x02a\x04\x00\x02\x06\x02\x7bx"
    # Milliseconds that are too many for microseconds.
    late = b"\x00" + b"\xfe" + b"\xff" * 8 + b"\x01\x06\x02\x7bx"
    found = decode(pa.array([good, late, good]))

    assert value_format.ddl() == (
        "STRUCT<`counts`: MAP<STRING, INT>, `at`: TIMESTAMP_LTZ, `wait`: INT, "
        "`price`: DECIMAL(4, 2), `raw`: BINARY>"
    )
    assert found.type == kind
    first = found[0].as_py()
    assert first["counts"] == [("a", 2)]
    assert (first["at"].microsecond, first["wait"]) == (1000, 3)
    assert (first["price"], first["raw"]) == (Decimal("1.23"), b"x")
    assert found.is_valid().to_pylist() == [True, False, True]


def test_avro_fields_that_the_column_leaves_out_are_skipped() -> None:
    kind = pa.struct([("ms", pa.int64())])

    assert decoded("avro", [avro("a", 5), None, b"\x02", avro("b", None)], kind) == [
        {"ms": 5},
        None,
        None,
        {"ms": None},
    ]


def test_an_avro_column_has_only_fields_of_its_schema() -> None:
    with pytest.raises(ConfigError, match="field id, but the Avro record Click has only page, ms"):
        decoded("avro", [], pa.struct([("id", pa.int64())]))


def test_a_null_that_the_schema_allows_is_no_bad_value() -> None:
    value_format = ValueFormat.of("avro", f'["null",{AVRO}]', "PERMISSIVE")
    decoder = value_decoder(value_format, PAGE)
    assert decoder is not None

    found = decoder.decode(pa.array([b"\x00", None, b"\x02" + avro("a", 5), b"\x04"], pa.binary()))

    assert found.values.to_pylist() == [None, None, {"page": "a", "ms": 5}, None]
    assert found.bad_rows.tolist() == [3]


@pytest.mark.parametrize("name", ["json", "csv", "avro", "string"])
def test_bad_rows_are_counted_between_nulls(name: str) -> None:
    good = {"json": b"{}", "csv": b"a,1", "avro": avro("a", 5), "string": b"a"}[name]
    bad = b"\xff\xff"
    schema = {"string": None, "avro": AVRO}.get(name, "page STRING, ms BIGINT")
    kind = pa.string() if name == "string" else PAGE
    decoder = value_decoder(ValueFormat.of(name, schema, "DROPMALFORMED"), kind)
    assert decoder is not None

    found = decoder.decode(pa.array([None, bad, good, None, good, bad, bad, None], pa.binary()))

    assert found.bad_rows.tolist() == [1, 5, 6]
    assert found.values.is_valid().to_pylist() == [False, False, True, False, True] + [False] * 3


@pytest.mark.parametrize("bad", [b"", b"\x02", b"\xff" * 20, avro("a", 5) + b"x"])
def test_bad_avro_is_null(bad: bytes) -> None:
    assert decoded("avro", [avro("a", 5), bad]) == [{"page": "a", "ms": 5}, None]


def test_strings_are_utf_8() -> None:
    assert decoded("string", ["é".encode(), b"\xff", None], pa.string()) == ["é", None, None]


@pytest.mark.parametrize(
    ("name", "bad", "kind"),
    [
        ("json", b"{", PAGE),
        ("csv", b"a", PAGE),
        ("avro", b"\x02", PAGE),
        ("string", b"\xff", pa.string()),
    ],
)
def test_fail_fast_names_the_value(name: str, bad: bytes, kind: pa.DataType) -> None:
    with pytest.raises(BadValue, match="set the option valueMode to PERMISSIVE") as raised:
        decoded(name, [bad, None], kind, mode="FAILFAST")
    assert repr(bad) in str(raised.value)


def test_the_column_has_the_type_of_the_schema() -> None:
    spark = StructType([StructField("a b", LongType()), StructField("c", StringType())]).json()

    assert ValueFormat.of("string", None, "PERMISSIVE").ddl() == "STRING"
    assert ValueFormat.of("csv", "a INT", "PERMISSIVE").ddl() == "STRUCT<a INT>"
    assert ValueFormat.of("json", spark, "PERMISSIVE").ddl() == "STRUCT<`a b`: bigint, `c`: string>"
    assert (
        ValueFormat.of("avro", AVRO, "PERMISSIVE").ddl() == "STRUCT<`page`: STRING, `ms`: BIGINT>"
    )


@pytest.mark.parametrize(
    ("name", "schema", "problem"),
    [
        ("json", None, "needs the option valueSchema"),
        ("string", "a INT", "no meaning with valueFormat string"),
        ("avro", "a INT", "no Avro schema"),
        ("avro", '{"type":"record"}', "no Avro schema"),
        ("avro", '["int","string"]', "union"),
        ("avro", '{"type":"record","name":"R","fields":[{"name":"a","type":"R"}]}', "holds itself"),
        ("json", '{"type":"struct"}', "no schema in JSON"),
    ],
)
def test_a_schema_that_does_not_fit_is_reported(
    name: str, schema: str | None, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        ValueFormat.of(name, schema, "PERMISSIVE")


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("csv", pa.struct([("a", pa.list_(pa.int32()))]), "nested column a"),
        ("json", pa.struct([("m", pa.map_(pa.string(), pa.int32()))]), "map m"),
    ],
)
def test_a_type_that_the_format_cannot_hold_is_reported(
    name: str, kind: pa.DataType, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        value_decoder(ValueFormat.of(name, "a INT", "PERMISSIVE"), kind)
