"""PostgreSQL's types as JSON."""

import base64
import json

import pytest

from headrace.ingest.cdc.postgres.array_text import parse_array
from headrace.ingest.cdc.postgres.column_type import ColumnTypes, PostgresType

TYPES = {
    1: PostgresType("date"),
    2: PostgresType("timestamp"),
    3: PostgresType("timestamptz"),
    4: PostgresType("interval"),
    5: PostgresType("money"),
    6: PostgresType("mood", "e"),
    7: PostgresType("percent", "d", base=8, base_modifier=((3 << 16) | 0) + 4),
    8: PostgresType("numeric"),
    9: PostgresType("_mood", "b", element=6),
    10: PostgresType("hstore"),
    11: PostgresType("float8"),
    12: PostgresType("time"),
    13: PostgresType("timetz"),
    14: PostgresType("inet"),
    15: PostgresType("bytea"),
    16: PostgresType("bit"),
    17: PostgresType("point"),
}


@pytest.mark.parametrize(
    ("type_id", "modifier", "text", "expected"),
    [
        (1, -1, "1970-01-02", "1"),
        (1, -1, "0044-03-15 BC", "-735160"),
        (1, -1, "10000-01-01", "2932897"),
        (1, -1, "infinity", "-2147472692"),
        (1, -1, "-infinity", "-2147472691"),
        (2, -1, "1970-01-01 00:00:01.5", "1500000"),
        (2, 3, "1970-01-01 00:00:01.5", "1500"),
        (2, -1, "-infinity", "-9223372036832400000"),
        (2, 3, "infinity", "9223372036825200"),
        (2, 0, "-infinity", "-9223372036832400"),
        (3, -1, "2020-01-01 00:00:00+00", '"2020-01-01T00:00:00.000000Z"'),
        (3, 3, "2020-01-01 00:00:00.5+00", '"2020-01-01T00:00:00.500Z"'),
        (3, 0, "2020-01-01 00:00:00+00", '"2020-01-01T00:00:00Z"'),
        (3, -1, "infinity", '"infinity"'),
        (3, 0, "0044-03-15 12:00:00+00 BC", '"-0043-03-15T12:00:00Z"'),
        (3, 0, "0001-01-01 12:00:00+00 BC", '"0000-01-01T12:00:00Z"'),
        (3, 0, "12345-06-07 12:00:00+00", '"+12345-06-07T12:00:00Z"'),
        (4, -1, "-1 days +02:00:00", str(-86_400_000_000 + 7_200_000_000)),
        (4, -1, "-00:00:00.000001", "-1"),
        (5, -1, "-$1,000.28", '"/nlE"'),
        (6, -1, "sad", '"sad"'),
        (7, -1, "7", '"Bw=="'),
        (9, -1, "{sad,NULL}", '["sad",null]'),
        (10, -1, '"a"=>"1", "b"=>NULL', '"{\\"a\\":\\"1\\",\\"b\\":null}"'),
        (11, -1, "-Infinity", '"-Infinity"'),
        (11, -1, "1e+300", "1e+300"),
        (12, 0, "24:00:00", "86400000"),
        (13, -1, "00:30:00+05:30", '"19:00:00Z"'),
        (14, -1, "10.0.0.1/8", '"10.0.0.1/8"'),
        (13, -1, "00:30:00.250+00", '"00:30:00.25Z"'),
        (15, -1, "\\x", '""'),
        (16, 9, "000000001", '"AQ=="'),
        (17, -1, "(0,0)", '{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'),
    ],
)
def test_values_are_written_as_debezium_writes_them(
    type_id: int, modifier: int, text: str, expected: str
) -> None:
    types = ColumnTypes(TYPES.__getitem__)
    assert types.find(type_id, modifier).to_json(text.encode()) == expected


def test_numbers_of_many_digits_are_written() -> None:
    text = "-1" + "0" * 131_071 + "." + "5" * 16_383
    precise = ColumnTypes(TYPES.__getitem__).find(8, -1)
    written = json.loads(precise.to_json(text.encode()))
    number = int.from_bytes(base64.b64decode(written["value"]), "big", signed=True)
    assert written["scale"] == 16_383
    assert number == -(10**147_454 + 5 * (10**16_383 - 1) // 9)
    double = ColumnTypes(TYPES.__getitem__, decimal_mode="double").find(8, -1)
    assert double.to_json(text.encode()) == '"-Infinity"'
    assert double.to_json(b"1" + b"0" * 309) == '"Infinity"'


def test_a_value_that_was_not_sent_has_a_placeholder_of_its_type() -> None:
    types = ColumnTypes(TYPES.__getitem__, placeholder="?")
    assert types.find(14, -1).unavailable == '"?"'
    assert types.find(15, -1).unavailable == '"Pw=="'
    assert types.find(9, -1).unavailable == '["?"]'
    assert types.find(1, -1).unavailable == "null"


@pytest.mark.parametrize("text", ["", "{", "{1", '{"a}', "{1}x", "1,2"])
def test_broken_arrays_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"array|ends inside|last brace"):
        parse_array(text)
