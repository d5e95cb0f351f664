"""Mistakes that Spark finds, shown in their line of the script."""

from headrace.flow.sql.error import SqlError, spark_error


def test_a_position_of_sparks_is_a_position_in_the_script() -> None:
    script = "SHOW STREAMS;\nSELECT pag FROM views"
    said = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `pag` cannot be resolved."
        " SQLSTATE: 42703; line 2 pos 7;\n'Project ['pag]"
    )

    error = spark_error(ValueError(said), script, script.index("SELECT"))

    assert (error.line, error.column) == (2, 8)
    assert str(error) == (
        "line 2, column 8: A column with name `pag` cannot be resolved\n"
        "  SELECT pag FROM views\n"
        "         ^"
    )


def test_without_a_position_the_statement_is_shown() -> None:
    error = spark_error(ValueError("[SOME_CLASS] it went wrong"), "SELECT 1", 0)

    assert (error.line, error.column, error.why) == (1, 1, "it went wrong")


def test_a_position_outside_of_the_script_is_harmless() -> None:
    error = spark_error(ValueError("odd (line 9, pos 99)"), "SELECT 1", 0)

    assert (error.line, error.column) == (1, 9)


def test_a_tab_is_as_wide_below() -> None:
    assert str(SqlError("odd", "\tSELECT", 1)).splitlines()[-1] == "  \t^"


def test_what_a_worker_raised_is_reported_with_its_own_message() -> None:
    said = """[PYTHON_DATA_SOURCE_ERROR] Failed to read: Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/headrace/spark/topic_choice.py", line 140, in _all
    raise _missing(name, pool)
headrace.spark.source.topic_choice.TopicMissing: there is no topic views; did you mean view?
 SQLSTATE: 38000"""

    error = spark_error(ValueError(said), "SELECT * FROM v", 0)

    assert error.why == "there is no topic views; did you mean view?"
