"""The values of the postgres_cdc source, with a real PostgreSQL."""

import pytest

from testkit.sample.ingest_agent import running
from testkit.sample.postgres_capture import PostgresCapture

pytestmark = pytest.mark.interop


def test_a_snapshot_and_the_stream_write_the_same_values(capture: PostgresCapture) -> None:
    columns = (
        "i2 int2, i8 int8, f float8, b bool, n numeric(8, 2), free numeric, t varchar(9),"
        "c char(3),"
        "raw bytea, d date, tm time, ts timestamp, ms timestamp(3), tz timestamptz, ttz timetz,"
        "iv interval, u uuid, j jsonb, one bit(1), bits bit(9), ints int[], texts text[], p point"
    )
    values = (
        "-3, 9007199254740993, 0.1, true, -1.28, 12.345, 'a\"b\\ü', 'ab', '\\x00ff', '2020-02-29',"
        "'12:00:00.5', '1969-12-31 23:59:59.999999', '2001-09-09 01:46:40.1239',"
        "'2020-01-01 12:00:00.25+02', '01:00:00+03', '1 mon -1 day 00:00:01',"
        "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{\"a\": [1]}', B'1', B'100000001',"
        "'{1,NULL}', '{\"a,b\",\"\"}', '(1.5,-2)'"
    )
    capture.run(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    capture.run(f"INSERT INTO kinds VALUES (1, {values})")
    with running(capture.configuration()):
        capture.wait_for_count("kinds", 1)
        capture.run(f"INSERT INTO kinds VALUES (1 + 1, {values})")
        capture.run("INSERT INTO kinds VALUES (3)")
        first, second, empty = capture.wait_for_count("kinds", 3)
    row = first.value["after"]
    assert second.value["after"] == {**row, "id": 2}
    assert set(map(type, list(empty.value["after"].values())[1:])) == {type(None)}
    assert row == {
        "id": 1,
        "i2": -3,
        "i8": 9007199254740993,
        "f": 0.1,
        "b": True,
        "n": "gA==",
        "free": {"scale": 3, "value": "MDk="},
        "t": 'a"b\\ü',
        "c": "ab ",
        "raw": "AP8=",
        "d": 18321,
        "tm": 43_200_500_000,
        "ts": -1,
        "ms": 1_000_000_000_124,
        "tz": "2020-01-01T10:00:00.250000Z",
        "ttz": "22:00:00Z",
        "iv": 2_629_800_000_000 - 86_400_000_000 + 1_000_000,
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": [1]}',
        "one": True,
        "bits": "AQE=",
        "ints": [1, None],
        "texts": ["a,b", ""],
        "p": {"x": 1.5, "y": -2.0, "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAADA", "srid": None},
    }
