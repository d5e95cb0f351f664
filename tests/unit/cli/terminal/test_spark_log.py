"""What Spark writes, kept off the terminal."""

import logging
from pathlib import Path

import pytest

from headrace.cli.terminal.spark_log import silence_pyspark, spark_log, tail_of
from headrace.model.error import ConfigError


def test_a_log_without_a_name_is_gone_at_the_end() -> None:
    with spark_log(None) as path:
        path.write_text("WARN Utils: your hostname")

    assert not path.exists()


def test_a_log_of_a_name_is_kept_and_its_folder_made(tmp_path: Path) -> None:
    wanted = tmp_path / "lake" / "words.checkpoint.log"

    with spark_log(wanted) as path:
        path.write_text("WARN Utils: your hostname")

    assert wanted.read_text() == "WARN Utils: your hostname"


def test_a_log_that_has_grown_too_large_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "words.checkpoint.log"
    with path.open("wb") as file:
        file.truncate(17 << 20)

    with spark_log(path):
        assert path.stat().st_size == 0


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be written"), spark_log(tmp_path / "file" / "x"):
        pass


def test_a_tail_is_short(tmp_path: Path) -> None:
    path = tmp_path / "words.log"
    path.write_text("x" * 10_000 + "\nthe last line\n")

    assert tail_of(path).endswith("\nthe last line")
    assert len(tail_of(path)) < 5_000
    assert tail_of(tmp_path / "none.log") == ""


def test_pyspark_writes_no_json_about_a_mistake_in_a_query() -> None:
    silence_pyspark()

    assert not logging.getLogger("SQLQueryContextLogger").isEnabledFor(logging.ERROR)
