"""A thread that makes logs durable, so that an append does not wait for it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import HeadraceError, LogClosed

_log = structlog.get_logger(__name__)


class BackgroundFlush:
    """Flushes rolled segments and syncs new logs of one log directory, in the order they come.

    Threads: any may call any method; one thread works.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-flush")

    def flush(self, log: PartitionLog) -> None:
        """Let recovery start at the end of this log (`PartitionLog.flush`)."""
        self._thread.submit(_quietly, log, log.flush)

    def sync(self, log: PartitionLog) -> None:
        """Make a new log durable."""
        self._thread.submit(_quietly, log, log.sync)

    def stop(self) -> None:
        """Return when the log under way is done; the owner flushes the others, or drops them."""
        self._thread.shutdown(cancel_futures=True)


def _quietly(log: PartitionLog, work: Callable[[], object]) -> None:
    """Work in the background. A failing disk has taken the directory offline and logged that."""
    try:
        work()
    except LogClosed:
        return  # deleted meanwhile
    except HeadraceError as error:
        _log.warning("background_flush_failed", partition=str(log.partition), reason=str(error))
