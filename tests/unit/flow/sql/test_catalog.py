"""Declarations of streams, and their mistakes."""

import stat
from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.sql.catalog import Catalog, StreamDefinition, stream_of
from headrace.flow.sql.error import SqlError
from headrace.flow.sql.parser import parse
from headrace.flow.sql.registry_stream import value_options
from headrace.flow.sql.statement import CreateStatement


def declared(script: str) -> StreamDefinition:
    (create,) = parse(script)
    assert isinstance(create, CreateStatement)
    return stream_of(create, script)


def test_a_declaration_with_everything() -> None:
    stream = declared(
        "CREATE STREAM views (page STRING, ms int, at TIMESTAMP METADATA FROM 'timestamp')"
        " WITH (topic = 'page-views', format = 'CSV', timestamp = 'at', watermark = '10 seconds',"
        " key = 'page', starting = 'latest', partitions = 3, kafka.client.id = 'me',"
        " source.maxOffsetsPerTrigger = 5)"
    )

    assert stream == StreamDefinition(
        name="views",
        topic="page-views",
        format="csv",
        columns=(
            ("page", "STRING", None),
            ("ms", "INT", None),
            ("at", "TIMESTAMP", "timestamp"),
        ),
        timestamp="at",
        watermark="10 seconds",
        key="page",
        starting="latest",
        partitions=3,
        options=(("kafka.client.id", "me"), ("maxoffsetspertrigger", "5")),
    )
    assert stream.value_columns == [("page", "STRING"), ("ms", "INT")]


def test_a_topic_has_the_name_of_its_stream_by_default() -> None:
    assert declared("CREATE STREAM views (page STRING)").topic == "views"


@pytest.mark.parametrize(
    ("script", "why", "place"),
    [
        ("CREATE STREAM v (a STRNG)", "STRNG is not a type", "a STRNG"),
        ("CREATE STREAM v (a INT METADATA FROM 'time')", "a record has no 'time'", "a INT"),
        ("CREATE STREAM v (a INT) WITH (topik = 'x')", "did you mean topic", "'x'"),
        ("CREATE STREAM v (a INT) WITH (format = 'xml')", "format cannot be 'xml'", "'xml'"),
        ("CREATE STREAM v (a INT) WITH (starting = 'now')", "starting cannot be", "'now'"),
        ("CREATE STREAM v (a INT) WITH (partitions = -1)", "a value in quotes", "-1"),
        ("CREATE STREAM v (a INT) WITH (key = 'b')", "key is 'b', which is no column", "'b'"),
        ("CREATE STREAM v (a INT) WITH (watermark = '1 s')", "needs the option timestamp", "'1 s'"),
        ("CREATE STREAM v (a INT) WITH (format = 'string')", "one column of type STR", "'string'"),
        ("CREATE STREAM v (a INT) WITH (format = 'avro')", "needs the option schema", "CREATE"),
        ("CREATE TABLE v (a INT)", "a table needs WITH", "CREATE"),
        ("CREATE STREAM v WITH (format = 'protobuf', schema.registry = 'x')", "is no URL", "'x'"),
        (
            "CREATE STREAM v WITH (format = 'csv', schema.registry = 'http://r')",
            "the format is one of avro, protobuf, json",
            "'csv'",
        ),
        (
            "CREATE STREAM v (a INT) WITH (format = 'protobuf')",
            "needs the option schema.registry",
            "'protobuf'",
        ),
        ("CREATE STREAM v (a INT) WITH (subject = 's')", "needs the option schema.registry", "'s'"),
        (
            "CREATE STREAM v (a INT) WITH (schema.registry.ulr = 'http://r')",
            "did you mean schema.registry.url",
            "'http://r'",
        ),
    ],
)
def test_a_wrong_declaration_is_shown_in_its_line(script: str, why: str, place: str) -> None:
    with pytest.raises(SqlError, match=why) as raised:
        declared(script)

    assert raised.value.column == script.index(place) + 1


def test_a_stream_with_a_registry_may_leave_its_columns_to_it(tmp_path: Path) -> None:
    stream = declared(
        "CREATE STREAM v WITH (format = 'avro', schema.registry = 'http://me:hidden@r',"
        " subject = 's')"
    )
    catalog = Catalog(tmp_path / "streams.json")
    catalog.put(stream)

    assert stream.columns == ()
    assert stream.registry == (("schema.registry.url", "http://me:hidden@r"),)
    assert "hidden" not in repr(stream)
    assert value_options(stream) == {
        "valueformat": "avro",
        "valuesubject": "s",
        "schema.registry.url": "http://me:hidden@r",
    }
    assert list(Catalog(tmp_path / "streams.json")) == [stream]


def test_names_are_found_in_any_case_and_the_nearest_is_suggested() -> None:
    catalog = Catalog()
    catalog.put(declared("CREATE STREAM Views (page STRING)"))

    assert catalog.find("VIEWS", "", 0).name == "Views"
    with pytest.raises(SqlError, match="there is no stream veiws; did you mean views"):
        catalog.find("veiws", "", 0)


def test_a_catalog_with_a_file_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "streams.json"
    catalog = Catalog(path)
    stream = declared("CREATE STREAM views (page STRING) WITH (kafka.client.id = 'me')")
    catalog.put(stream)
    catalog.put(declared("CREATE STREAM gone (page STRING)"))
    catalog.drop("GONE")

    assert list(Catalog(path)) == [stream]


def test_only_its_owner_reads_a_catalog_with_passwords(tmp_path: Path) -> None:
    path = tmp_path / "streams.json"
    for each in (path, tmp_path / "streams.json.part"):
        each.write_text("[]")
        each.chmod(0o644)

    Catalog(path).put(declared("CREATE STREAM v (a INT) WITH (kafka.sasl.password = 'hidden')"))

    assert "hidden" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["streams.json"]


def test_a_file_that_is_no_catalog_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "streams.json"
    path.write_text('[{"surprise": 1}]')

    with pytest.raises(FlowError, match="is no catalog of streams"):
        Catalog(path)
