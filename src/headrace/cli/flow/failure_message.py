"""Failures of a flow on the command line: one sentence, and Spark's whole message on request."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

from headrace.flow.error import FlowError
from headrace.flow.execution.failure import failure_of

# Errors of `headrace.client.error` after which a new run continues from the checkpoint.
_TRANSIENT = ("Unreachable", "ConnectionLost")


def flow_failed(name: str, error: BaseException, *, traceback: bool, log: Path | None) -> FlowError:
    """Return the error to raise for what Spark raised.

    Args:
        traceback: add Spark's whole message.
        log: the file that Spark writes to.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    lost = isinstance(error, Py4JError | ConnectionError)
    if lost and not isinstance(error, Py4JJavaError):
        where = "" if log is None else f"; the end of {log} may say why"
        return FlowError(f"{name} failed: Spark's Java process is gone{where}")
    failure = failure_of(error)
    sentence = failure.sentence(name)
    if failure.kind in _TRANSIENT:
        sentence += "; once it is back, the next run continues where this one stopped"
    return FlowError(f"{sentence}\n\n{error}" if traceback else sentence)


@contextmanager
def spark_failures_reported(
    name: str, *, traceback: bool, log: Path | None = None
) -> Iterator[None]:
    """Raise a FlowError for what Spark raises inside the block."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        if isinstance(error, ConnectionError) and not _is_of_py4j(error):
            raise
        raise flow_failed(name, error, traceback=traceback, log=log) from error


def _is_of_py4j(error: BaseException) -> bool:
    """Return whether py4j raised the error: Spark's Java process could not be reached."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).startswith("py4j.")
