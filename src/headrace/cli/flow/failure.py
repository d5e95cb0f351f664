"""A flow that fails on the command line: one sentence, and all of it only for those who ask."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

from headrace.flow.error import FlowError
from headrace.flow.execution.failure import failure_of

# Of `headrace.client.error`: the flow is as good as before, and the checkpoint knows where it was.
_PASSING = ("Unreachable", "ConnectionLost")


def flow_failed(name: str, error: BaseException, *, traceback: bool, log: Path | None) -> FlowError:
    """What to raise for what Spark raised.

    Args:
        traceback: tell everything that Spark says.
        log: where Spark has written the rest.
    """
    from py4j.protocol import Py4JError, Py4JJavaError

    lost = isinstance(error, Py4JError | ConnectionError)
    if lost and not isinstance(error, Py4JJavaError):
        where = "" if log is None else f"; the end of {log} may say why"
        return FlowError(f"{name} failed: Spark's Java process is gone{where}")
    failure = failure_of(error)
    told = failure.sentence(name)
    if failure.kind in _PASSING:
        told += "; once it is back, the next run goes on where this one stopped"
    return FlowError(f"{told}\n\n{error}" if traceback else told)


@contextmanager
def told_briefly(name: str, *, traceback: bool, log: Path | None = None) -> Iterator[None]:
    """Turns what Spark raises inside into a FlowError."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        if isinstance(error, ConnectionError) and not _is_of_py4j(error):
            raise
        raise flow_failed(name, error, traceback=traceback, log=log) from error


def _is_of_py4j(error: BaseException) -> bool:
    """Whether it was Spark's Java that could not be reached."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).startswith("py4j.")
