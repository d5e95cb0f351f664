"""Our own statements around Spark's SQL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow.sql.error import SqlError
from headrace.flow.sql.parser import is_complete, parse
from headrace.flow.sql.statement import (
    CreateStatement,
    DescribeStatement,
    DropStatement,
    EmitMode,
    ExplainStatement,
    InsertStatement,
    SelectStatement,
    ShowStatement,
    Statement,
)


def one(script: str) -> Statement:
    (found,) = parse(script)
    return found


def test_a_stream_is_declared_with_columns_and_options() -> None:
    made = one(
        "CREATE OR REPLACE STREAM IF NOT EXISTS views (page STRING, tags ARRAY<STRING>,"
        " price DECIMAL(10, 2), at TIMESTAMP METADATA FROM 'timestamp')"
        " WITH (topic = 'page-views', format = json, kafka.client.id = 'x')"
    )

    assert isinstance(made, CreateStatement)
    assert (made.name, made.replace, made.if_not_exists, made.table) == ("views", True, True, False)
    assert [(each.name, each.ddl, each.metadata) for each in made.columns] == [
        ("page", "STRING", None),
        ("tags", "ARRAY<STRING>", None),
        ("price", "DECIMAL(10, 2)", None),
        ("at", "TIMESTAMP", "timestamp"),
    ]
    assert {name: each.text for name, each in made.options.items()} == {
        "topic": "page-views",
        "format": "json",
        "kafka.client.id": "x",
    }


def test_a_stream_as_a_query_has_the_query_as_it_was_written() -> None:
    script = "CREATE STREAM slow WITH (key = 'page') AS\n  SELECT page -- EMIT\n FROM views"

    made = one(script)

    assert isinstance(made, CreateStatement)
    assert made.query is not None
    assert made.query.text == "SELECT page -- EMIT\n FROM views"
    assert script[made.query.start :].startswith("SELECT")


@pytest.mark.parametrize(
    ("end", "emit", "limit"),
    [
        ("", EmitMode.NOW, None),
        (" EMIT", EmitMode.TABLE, None),
        (" emit changes", EmitMode.CHANGES, None),
        (" EMIT FINAL", EmitMode.FINAL, None),
        (" EMIT LIMIT 3", EmitMode.TABLE, 3),
        (" EMIT CHANGES LIMIT 10", EmitMode.CHANGES, 10),
    ],
)
def test_emit_decides_which_rows_a_query_returns(
    end: str, emit: EmitMode, limit: int | None
) -> None:
    made = one(f"SELECT 'EMIT' AS emitted, `emit` FROM views LIMIT 5{end}")

    assert isinstance(made, SelectStatement)
    assert (made.emit, made.limit) == (emit, limit)
    assert made.query.text == "SELECT 'EMIT' AS emitted, `emit` FROM views LIMIT 5"


def test_a_script_has_several_statements() -> None:
    script = """
        -- a comment; with a semicolon
        SHOW STREAMS; DESCRIBE views;; DROP STREAM IF EXISTS `odd name`;
        INSERT INTO slow SELECT ';' FROM views EMIT FINAL;
        EXPLAIN SELECT 1
    """

    kinds = [type(each) for each in parse(script)]

    assert kinds == [
        ShowStatement,
        DescribeStatement,
        DropStatement,
        InsertStatement,
        ExplainStatement,
    ]


@pytest.mark.parametrize(
    ("script", "why", "line", "column"),
    [
        ("SELEC 1", "a statement begins with CREATE", 1, 1),
        ("CREATE STREEM x (a INT)", "STREAM or TABLE must stand here", 1, 8),
        ("CREATE STREAM x", "columns in brackets, or AS SELECT, must follow", 1, 16),
        ("CREATE STREAM x (a)", "a type must follow", 1, 19),
        ("CREATE STREAM x (a INT) WITH (topic)", "= must stand here", 1, 36),
        ("CREATE STREAM x (a INT)\n WITH (topic='a', topic='b')", "topic is there twice", 2, 19),
        ("SELECT 1 EMIT LIMIT many", "a number must follow LIMIT", 1, 21),
        ("SELECT 1 EMIT LIMIT 0", "LIMIT is from 1", 1, 21),
        ("SELECT 1 EMIT CHANGES now", "the statement should end here", 1, 23),
        ("SELECT 'open", "a text that is not closed begins here", 1, 8),
        ("SELECT 1 /* open", "a comment that is not closed begins here", 1, 10),
        ("INSERT INTO x", "a query must follow", 1, 14),
        ("SHOW ME", "STREAMS or TABLES or QUERIES must stand here", 1, 6),
        ("CREATE TABLE x AS SELECT 1", "AS SELECT makes a stream", 1, 19),
    ],
)
def test_a_mistake_is_shown_in_its_line(script: str, why: str, line: int, column: int) -> None:
    with pytest.raises(SqlError, match=why) as raised:
        list(parse(script))

    assert (raised.value.line, raised.value.column) == (line, column)
    shown, mark = str(raised.value).splitlines()[-2:]
    assert shown.strip() in script
    assert mark == " " * (2 + column - 1) + "^"


def test_statements_before_a_mistake_are_yielded() -> None:
    found = parse("SHOW STREAMS; SELEC 1")

    assert isinstance(next(found), ShowStatement)
    with pytest.raises(SqlError):
        next(found)


@pytest.mark.parametrize(
    ("typed", "complete"),
    [("SELECT 1;\n", True), ("SELECT 1\n", False), ("SELECT ';\n", False), ("\n", True)],
)
def test_a_prompt_waits_for_the_semicolon(typed: str, complete: bool) -> None:
    assert is_complete(typed) is complete


@given(st.text(alphabet="abEMIT SLC'\"`;(),-/*\n1", max_size=60))
def test_any_text_is_a_statement_or_a_mistake_with_a_position(script: str) -> None:
    try:
        found = list(parse(script))
    except SqlError as error:
        assert 1 <= error.line <= script.count("\n") + 1
    else:
        assert all(0 <= each.start < len(script) for each in found)
