"""How records become rows: values with fields, change events, and records that are no rows."""

import base64
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.client.read.chunk import Chunk
from headrace.landing.column_ddl import declared_columns
from headrace.landing.dead_letter import dead_letters
from headrace.landing.error import LandingError
from headrace.landing.row.choice import row_decoder
from headrace.landing.row.decoded import DecodedRows, RowDecoder
from headrace.landing.row.registry_value import RegistryReader
from headrace.landing.row.value_rows import ValueRows
from headrace.landing.source import Source
from headrace.landing.table_factory import create_table
from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
from headrace.model.table.table_name import TableName
from headrace.records.column import HEADERS, TIMESTAMP
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro import AvroColumnWriter
from headrace.serde.error import RegistryError
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.wire_format import id_head

BEYOND = 2**62


def chunk(*records: tuple[bytes | None, bytes | None], times: list[int] | None = None) -> Chunk:
    """Return records of partition 3 from offset 10 on, as the client's reader does."""
    rows = len(records)
    columns = {
        "offset": pa.array(range(10, 10 + rows), pa.int64()),
        "timestamp": pa.array(times or [1000] * rows, pa.int64()).cast(TIMESTAMP),
        "key": pa.array([key for key, _ in records], pa.binary()),
        "value": pa.array([value for _, value in records], pa.binary()),
        "headers": pa.array([[]] * rows, HEADERS),
    }
    return Chunk(TopicPartition("t", 3), pa.RecordBatch.from_pydict(columns), 10 + rows)


def values(decoded: DecodedRows, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(each[name] for name in names) for each in decoded.rows.to_pylist()]


def json_rows(columns: str | None = None, **options: Any) -> RowDecoder:
    declared = None if columns is None else declared_columns(columns)
    return row_decoder("json", columns=declared, **options)


def event(op: str, before: Any, after: Any, *, wrapped: bool = False) -> bytes:
    found = {"before": before, "after": after, "op": op, "source": {"db": "x"}}
    return json.dumps({"schema": {}, "payload": found} if wrapped else found).encode()


def test_raw_rows_have_bytes_and_place() -> None:
    decoded = row_decoder("raw").decode(chunk((b"k", None), (None, b"v")))

    assert values(decoded, "key", "value", "partition", "offset") == [
        (b"k", None, 3, 10),
        (None, b"v", 3, 11),
    ]


def test_a_time_that_no_table_holds_is_a_dead_letter() -> None:
    records = chunk((b"k", b"good"), (b"k", b"bad"), times=[1000, BEYOND])

    decoded = row_decoder("raw").decode(records)
    letters = dead_letters(records, decoded)

    assert values(decoded, "value") == [(b"good",)]
    assert letters is not None
    assert letters.select(["value", "offset", "timestamp"]).to_pylist() == [
        {"value": b"bad", "offset": 11, "timestamp": None}
    ]


def test_json_becomes_declared_columns() -> None:
    rows = json_rows("page STRING, ms INT")

    decoded = rows.decode(chunk((b"k", b'{"page": "/", "ms": 3, "more": 1}'), (None, b"{}")))

    assert values(decoded, "page", "ms", "_key", "_offset") == [
        ("/", 3, b"k", 10),
        (None, None, None, 11),
    ]
    assert decoded.bad == []


def test_json_that_does_not_fit_is_bad_and_the_rest_is_not() -> None:
    rows = json_rows("ms INT")

    decoded = rows.decode(
        chunk(*((None, each) for each in (b'{"ms": 1}', b'{"ms": "x"}', b"[", b'{"ms": 4}', None)))
    )

    assert values(decoded, "ms", "_offset") == [(1, 10), (4, 13), (None, 14)]
    assert [place for place, _ in decoded.bad] == [1, 2]
    assert "no JSON object" in decoded.bad[1][1]


def test_the_first_values_show_the_columns_and_later_ones_keep_them() -> None:
    rows = json_rows()
    first = rows.decode(chunk((None, b'{"a": 1, "at": "2026-11-17T01:00:00Z"}'), (None, b"x")))
    later = rows.decode(chunk((None, b'{"a": 2, "b": 3}'), (None, b'{"a": "text"}')))

    assert values(first, "a", "at") == [(1, "2026-11-17T01:00:00Z")]
    assert first.bad == [(1, "it is no JSON object")]
    assert later.rows.schema.names == first.rows.schema.names
    assert values(later, "a") == [(2,)]
    assert [place for place, _ in later.bad] == [1]


def test_a_later_run_uses_the_columns_of_the_table() -> None:
    first, second = json_rows(), json_rows()
    first.decode(chunk((None, b'{"a": 1}')))
    assert first.columns is not None

    second.use(first.columns)
    decoded = second.decode(chunk((None, b'{"a": 2, "other": "x"}')))

    assert values(decoded, "a") == [(2,)]
    assert second.columns == first.columns


def test_declared_columns_must_be_those_of_the_table() -> None:
    rows = json_rows("a STRING")

    with pytest.raises(LandingError, match="the column a is int64 in the table, not string"):
        rows.use(pa.schema([("a", pa.int64())]))


def test_an_upsert_removes_rows_by_the_key_of_a_record_without_a_value() -> None:
    rows = json_rows("id INT, n STRING", keys=("id",))

    decoded = rows.decode(
        chunk(
            (b'{"id": 1}', b'{"id": 1, "n": "a"}'),
            (b'{"id": 1}', None),
            (b'{"payload": {"id": 2}}', None),
            (b"3", None),
            (b"nonsense", None),
            (b"4", b'{"n": "no id"}'),
        )
    )

    assert values(decoded, "id", "n") == [(1, "a"), (1, None), (2, None), (3, None)]
    assert decoded.deleted is not None
    assert decoded.deleted.to_pylist() == [False, True, True, True]
    assert [place for place, _ in decoded.bad] == [4, 5]


def test_the_key_of_a_column_of_text_may_look_like_a_number() -> None:
    rows = json_rows("id STRING", keys=("id",))

    decoded = rows.decode(
        chunk(
            *((key, None) for key in (b"007", b"42", b"true", b'"8"', b'{"id": "9"}', b"x", b"[1]"))
        )
    )

    assert values(decoded, "id") == [("007",), ("42",), ("true",), ("8",), ("9",), ("x",), ("[1]",)]
    assert decoded.bad == []


@pytest.mark.parametrize("wrapped", [False, True])
def test_change_events_write_and_remove_rows(wrapped: bool) -> None:
    rows = json_rows("id INT, n STRING", keys=("id",), envelope="debezium")

    decoded = rows.decode(
        chunk(
            (b"1", event("r", None, {"id": 1, "n": "a"}, wrapped=wrapped)),
            (b"1", event("u", {"id": 1}, {"id": 1, "n": "b"}, wrapped=wrapped)),
            (b"1", event("d", {"id": 1}, None, wrapped=wrapped)),
            (b"1", None),
            (b"1", event("t", None, None, wrapped=wrapped)),
            (b"1", event("c", None, None, wrapped=wrapped)),
        )
    )

    assert values(decoded, "id", "n", "_offset") == [(1, "a", 10), (1, "b", 11), (1, None, 12)]
    assert decoded.deleted is not None
    assert decoded.deleted.to_pylist() == [False, False, True]
    assert [why for _, why in decoded.bad] == [
        "its change event has the op 't', which changes no row",
        "its change event has no after",
    ]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_change_event_without_an_unchanged_value_replaces_nothing(wrapped: bool) -> None:
    rows = json_rows("id INT, n STRING, l ARRAY<STRING>", keys=("id",), envelope="debezium")
    text = "__debezium_unavailable_value"
    coded = base64.b64encode(text.encode()).decode()

    decoded = rows.decode(
        chunk(
            (b"1", event("u", None, {"id": 1, "n": text}, wrapped=wrapped)),
            (b"2", event("u", None, {"id": 2, "n": coded}, wrapped=wrapped)),
            (b"3", event("u", None, {"id": 3, "n": "a", "l": ["b"]}, wrapped=wrapped)),
            (b"4", event("u", None, {"id": 4, "n": "a", "l": [text]}, wrapped=wrapped)),
            (b"5", event("d", {"id": 5, "n": text}, None, wrapped=wrapped)),
        )
    )

    assert values(decoded, "id", "_offset") == [(3, 12), (5, 14)]
    assert [place for place, _ in decoded.bad] == [0, 1, 3]
    assert all("REPLICA IDENTITY FULL" in why for _, why in decoded.bad)
    assert "the value of l" in decoded.bad[2][1]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_row_is_removed_only_by_columns_that_the_key_of_its_event_has(wrapped: bool) -> None:
    rows = json_rows("id INT, code STRING", keys=("code",), envelope="debezium")

    def key(**columns: Any) -> bytes:
        return json.dumps({"schema": {}, "payload": columns} if wrapped else columns).encode()

    decoded = rows.decode(
        chunk(
            (key(id=1), event("c", None, {"id": 1, "code": ""}, wrapped=wrapped)),
            # The code was not sent: it is empty because it is NOT NULL.
            (key(id=2), event("d", {"id": 2, "code": ""}, None, wrapped=wrapped)),
            (key(code="c"), event("d", {"id": 0, "code": "c"}, None, wrapped=wrapped)),
            (None, event("d", {"id": 4, "code": "d"}, None, wrapped=wrapped)),
            (b"{e", event("d", {"id": 5, "code": "e"}, None, wrapped=wrapped)),
        )
    )

    assert values(decoded, "code", "_offset") == [("", 10), ("c", 12), ("d", 13), ("e", 14)]
    assert decoded.deleted is not None
    assert decoded.deleted.to_pylist() == [False, True, True, True]
    ((place, why),) = decoded.bad
    assert place == 1 and "its key has no code" in why


@pytest.mark.parametrize("options", [{}, {"keys": ("id",)}])
@pytest.mark.parametrize("columns", [None, "id INT, __deleted STRING, __at INT, __row INT"])
def test_fields_may_have_any_name(columns: str | None, options: Any) -> None:
    rows = json_rows(columns, **options)

    decoded = rows.decode(
        chunk(
            (b"1", b'{"id": 1, "__deleted": "false", "__at": 5, "__row": 6}'),
            (b"2", b'{"id": 2, "__deleted": "true", "__at": null, "__row": 7}'),
        )
    )

    assert not decoded.bad
    names = ("id", "__deleted", "__at", "__row")
    assert values(decoded, *names) == [(1, "false", 5, 6), (2, "true", None, 7)]


def test_columns_that_no_table_can_have_are_refused_when_it_is_made(tmp_path: Path) -> None:
    columns = declared_columns("id INT, ID INT")
    name = TableName.parse(f"delta:{tmp_path}/t")

    with pytest.raises(LandingError, match="ID: it differs from id only in case"):
        create_table(name, {}, columns, Source(topic="t", topic_id=None), {0: 0})


class Registry:
    """Has two versions of a record, and others: one that does not fit to them, a change event and
    its key, and one with the name of a partition."""

    def __init__(self) -> None:
        texts = [
            '{"type":"record","name":"R","fields":[{"name":"id","type":"int"}]}',
            '{"type":"record","name":"R","fields":[{"name":"id","type":"long"},'
            '{"name":"name","type":["null","string"],"default":null}]}',
            '{"type":"record","name":"R","fields":[{"name":"id","type":"string"}]}',
            '{"type":"record","name":"E","fields":[{"name":"before","type":["null",{"type":"record",'
            '"name":"R","fields":[{"name":"id","type":"int"},{"name":"code","type":"string"}]}]},'
            '{"name":"after","type":["null","R"]},{"name":"op","type":"string"}]}',
            '{"type":"record","name":"K","fields":[{"name":"code","type":"string"}]}',
            '{"type":"record","name":"H","fields":[{"name":"id_hour","type":"int"}]}',
        ]
        self.schemas = [parse(SchemaText(SchemaType.AVRO, each)) for each in texts]

    def schema(self, schema_id: int) -> RegisteredSchema:
        if schema_id >= len(self.schemas):
            raise RegistryError("there is none", 404, 40403)
        parsed = self.schemas[schema_id]
        text = SchemaText(SchemaType.AVRO, "")
        return RegisteredSchema(schema_id, None, None, None, text, parsed)

    def value(self, schema_id: int, row: dict[str, Any]) -> bytes:
        parsed: Any = self.schemas[schema_id]
        rows = pa.array([row])
        return bytes(
            AvroColumnWriter(parsed).write(rows, prefix=id_head(schema_id)).values[0].as_py()
        )


def test_avro_is_read_by_the_schema_that_each_value_names() -> None:
    registry: Any = Registry()
    rows = ValueRows(lambda columns: RegistryReader(registry), None, fixed=False)

    decoded = rows.decode(
        chunk(
            (None, registry.value(0, {"id": 1})),
            (None, registry.value(1, {"id": 2, "name": "b"})),
            (None, registry.value(2, {"id": "three"})),
            (None, b"plain"),
            (None, id_head(9) + b"x"),
            (None, id_head(0)),
            (None, registry.value(0, {"id": 7})),
        )
    )

    assert values(decoded, "id", "name", "_offset") == [(1, None, 10), (2, "b", 11), (7, None, 16)]
    reasons = dict(decoded.bad)
    assert "its field id is string, and the table has int32" in reasons[2]
    assert reasons[3] == "it names no schema"
    assert reasons[4] == "the registry has no schema 9"
    assert sorted(reasons) == [2, 3, 4, 5]


def test_a_field_cannot_have_the_name_of_the_partitions() -> None:
    registry: Any = Registry()
    rows = row_decoder("registry", registry=registry, partition_by="hour(id)")
    decoded = rows.decode(chunk((None, registry.value(5, {"id_hour": 1}))))

    ((_, why),) = decoded.bad
    assert "id_hour has a name that the table needs itself" in why
    with pytest.raises(LandingError, match="cannot have the column at_hour"):
        json_rows("at TIMESTAMP, at_hour STRING", partition_by="hour(at)")


def test_a_table_is_not_made_without_the_columns_that_name_a_row() -> None:
    registry: Any = Registry()
    rows = row_decoder("registry", keys=("id",), registry=registry)

    first = rows.decode(chunk((None, registry.value(4, {"code": "a"}))))
    before = rows.columns
    second = rows.decode(chunk((None, registry.value(0, {"id": 1}))))

    assert (first.rows.num_rows, first.bad) == (0, [(0, "its key column id is null")])
    assert before is None
    assert values(second, "id") == [(1,)]
    assert rows.columns is not None and "id" in rows.columns.names


def test_a_row_is_removed_only_by_columns_of_the_schema_that_the_key_names() -> None:
    registry: Any = Registry()
    rows = row_decoder("registry", keys=("code",), envelope="debezium", registry=registry)

    def removed(code: str) -> bytes:
        row = {"id": 0, "code": code}
        return bytes(registry.value(3, {"before": row, "after": row, "op": "d"}))

    decoded = rows.decode(
        chunk(
            # The code was not sent: it is empty because it is NOT NULL.
            (registry.value(0, {"id": 1}), removed("")),
            (registry.value(4, {"code": "b"}), removed("b")),
            (id_head(9) + b"x", removed("c")),
            (None, removed("d")),
            (b"e", removed("e")),
        )
    )

    assert values(decoded, "code") == [("b",), ("d",), ("e",)]
    reasons = dict(decoded.bad)
    assert sorted(reasons) == [0, 2]
    assert "its key has no code" in reasons[0]
    assert "its key cannot be read: the registry has no schema 9" in reasons[2]


def test_a_key_that_names_a_schema_removes_nothing_without_a_registry() -> None:
    rows = json_rows("id INT, code STRING", keys=("code",), envelope="debezium")
    key: bytes = Registry().value(0, {"id": 1})

    decoded = rows.decode(chunk((key, event("d", {"id": 1, "code": ""}, None))))

    assert decoded.rows.num_rows == 0
    ((place, why),) = decoded.bad
    assert place == 0 and "its key names a schema" in why


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"values": "csv"}, "--as cannot be 'csv'"),
        ({"values": "raw", "keys": ("id",)}, "--upsert needs columns"),
        ({"values": "json", "envelope": "debezium"}, "name their keys"),
        ({"values": "json", "envelope": "debezium", "keys": ("id",)}, "--schema"),
        ({"values": "registry"}, "--registry URL"),
        ({"values": "raw", "columns": pa.schema([])}, "--as json"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        row_decoder(**options)
