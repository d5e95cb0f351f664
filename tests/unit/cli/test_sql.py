"""`headrace sql` without Spark: mistakes before it starts, and how results look."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from headrace.cli.sql_output import SqlOutput
from headrace.cli.terminal.output_format import OutputFormat
from headrace.flow.sql.engine import QueryResult
from testkit.process.command_line import run_headrace

ROWS = [("/", 2, None), ("/[b]cart", 1, datetime(2026, 11, 15, 9, tzinfo=UTC))]
COLUMNS = ("page", "n", "at")


def test_a_mistake_in_any_statement_is_reported_before_spark_starts(tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SHOW STREAMS;\nSELECT 1 EMIT LIMIT x;\n")

    done = run_headrace("sql", str(script))

    assert done.code == 1
    assert done.err.splitlines() == [
        "headrace: line 2, column 21: a number must follow LIMIT",
        "  SELECT 1 EMIT LIMIT x;",
        "                      ^",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-e", "SHOW STREAMS", "script.sql"], "-e and FILE exclude each other"),
        (["no_such.sql"], "no_such.sql cannot be read"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(arguments: list[str], message: str) -> None:
    done = run_headrace("sql", *arguments)

    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


def test_an_answer_is_a_table_or_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    SqlOutput(OutputFormat.TEXT).answer(QueryResult(COLUMNS, ROWS, "Only the first 2 rows."))
    text = capsys.readouterr().out.splitlines()
    SqlOutput(OutputFormat.JSON).answer(QueryResult(COLUMNS, ROWS))
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]

    assert text[0].split() == ["page", "n", "at"]
    assert text[2].split() == ["/[b]cart", "1", "2026-11-15T09:00:00+00:00"]
    assert text[-1] == "Only the first 2 rows."
    assert lines[1] == {"page": "/[b]cart", "n": 1, "at": "2026-11-15T09:00:00+00:00"}


def test_a_live_table_shows_the_whole_result_and_takes_nothing_for_markup() -> None:
    shown = io.StringIO()
    output = SqlOutput(OutputFormat.TEXT, Console(file=shown, force_terminal=True, width=80))

    with output.emitting() as show:
        show(COLUMNS, [("/old", 1, None)], True)
        show(COLUMNS, ROWS, True)

    last = shown.getvalue().rpartition("page")[2]
    assert "/[b]cart" in last
    assert "/old" not in last


def test_a_live_table_is_no_higher_than_the_terminal() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, height=10)

    with SqlOutput(OutputFormat.TEXT, console).emitting() as show:
        show(("word_count",), [(number,) for number in range(100)], True)

    last = shown.getvalue().rpartition("word_count")[2]
    assert "6 of 100 rows" in last
    assert len(last.splitlines()) < 10


def test_a_live_table_says_that_it_waits() -> None:
    shown = io.StringIO()

    with SqlOutput(
        OutputFormat.TEXT, Console(file=shown, force_terminal=True, width=80)
    ).emitting():
        pass

    assert "Waiting for rows; Ctrl-C stops." in shown.getvalue()


def test_without_a_terminal_every_row_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    output = SqlOutput(OutputFormat.TEXT, Console(file=io.StringIO()))

    with output.emitting() as show:
        show(COLUMNS, ROWS[:1], False)

    assert json.loads(capsys.readouterr().out) == {"page": "/", "n": 2, "at": None}
