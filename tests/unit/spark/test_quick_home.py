"""A SPARK_HOME without zipped Python files."""

import sys
from pathlib import Path

import pyspark

from headrace.spark.quick_home import quick_home


def test_it_has_spark_and_no_python_files(tmp_path: Path) -> None:
    home = quick_home({"XDG_CACHE_HOME": str(tmp_path)})

    assert home is not None
    assert (home / "jars").resolve() == Path(pyspark.__file__).parent / "jars"
    assert (home / "bin" / "spark-submit").is_file()
    assert not (home / "python").exists()


def test_it_is_made_once(tmp_path: Path) -> None:
    first = quick_home({"XDG_CACHE_HOME": str(tmp_path)})
    again = quick_home({"XDG_CACHE_HOME": str(tmp_path), "PYSPARK_PYTHON": sys.executable})

    assert again == first
    assert [each.name for each in (tmp_path / "headrace").iterdir()] == [first and first.name]


def test_who_has_chosen_a_spark_or_another_python_keeps_it(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}

    assert quick_home({**cache, "SPARK_HOME": "/opt/spark"}) is None
    assert quick_home({**cache, "PYSPARK_PYTHON": "/usr/bin/python3"}) is None


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert quick_home({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
