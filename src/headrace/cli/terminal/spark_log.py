"""A file for what Spark writes: its Java process logs a dozen lines before it can be configured."""

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
    """Yield the file for Spark's output; without a path it is a temporary file.

    Raises:
        ConfigError: the file cannot be written.
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


def silence_pyspark() -> None:
    """Stop PySpark from writing every failed query to standard error as JSON with Java's stack: the
    command reports the failure in one sentence."""
    from pyspark.logger import PySparkLogger

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def tail_of(path: Path) -> str:
    """Return the last lines of a file; none if it does not exist."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").rstrip()
