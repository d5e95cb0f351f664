"""Where Spark's own words go: its Java writes a dozen lines before anybody can tell it not to."""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.model.error import ConfigError

_MOST_BYTES = 16 << 20
_TAIL_BYTES = 4_096
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def spark_log(path: Path | None) -> Iterator[Path]:
    """A file for them; without a path it is gone at the end.

    Raises:
        ConfigError: there can be no such file.
    """
    if path is None:
        with tempfile.TemporaryDirectory(prefix="headrace-spark-") as folder:
            yield Path(folder) / "spark.log"
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MOST_BYTES:
            path.unlink()
        path.touch()
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    yield path


def hush_pyspark() -> None:
    """Keep PySpark from writing every mistake in a query to our standard error as a line of JSON,
    with Java's whole stack: whoever asked is told in a sentence."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def tail_of(path: Path) -> str:
    """The last lines."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").rstrip()
