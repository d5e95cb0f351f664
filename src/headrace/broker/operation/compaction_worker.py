"""Compaction in the background of a broker: numba and the key map are loaded when first needed."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from headrace.log.compaction.cleaner import Cleaner
from headrace.log.compaction.throttle import Throttle
from headrace.log.log_directory import LogDirectory
from headrace.model.clock import Clock
from headrace.model.error import CompactionStopped
from headrace.model.ids import TopicPartition

if TYPE_CHECKING:
    from headrace.log.compaction.compactor import Compactor


class CompactionWorker:
    """Compacts the directories of one broker. `run` is called in a thread, one run at a time."""

    def __init__(
        self,
        directories: list[LogDirectory],
        clock: Clock,
        *,
        memory_bytes: int,
        bytes_per_second: float,
    ) -> None:
        self._clock = clock
        self._memory_bytes = memory_bytes
        self._bytes_per_second = bytes_per_second
        self._stopped = threading.Event()
        self._compactor: Compactor | None = None
        self._cleaners = [
            (directory, Cleaner(directory.storage, directory.path, directory.open_logs))
            for directory in directories
        ]

    def configure(self, *, memory_bytes: int, bytes_per_second: float) -> None:
        """From the next run on; a run under way ends as it began."""
        if (memory_bytes, bytes_per_second) != (self._memory_bytes, self._bytes_per_second):
            self._memory_bytes = memory_bytes
            self._bytes_per_second = bytes_per_second
            self._compactor = None

    def run(self) -> None:
        """Compact until no log needs it."""
        for directory, cleaner in self._cleaners:
            if not _may_need_it(directory):
                continue
            compactor = self._made_compactor()
            try:
                while cleaner.run_once(compactor) is not None:
                    pass
            except CompactionStopped:
                continue  # the log changed under the round, or we stop

    @contextmanager
    def deleting(self, partition: TopicPartition) -> Iterator[None]:
        """Compaction keeps off a partition inside this, and has forgotten it afterwards."""
        with ExitStack() as paused:
            for _, cleaner in self._cleaners:
                paused.enter_context(cleaner.paused(partition))
            yield
            for _, cleaner in self._cleaners:
                cleaner.forget(partition)

    def stop(self) -> None:
        """End the round under way at its next chunk."""
        self._stopped.set()

    def _made_compactor(self) -> "Compactor":
        if self._compactor is None:
            from headrace.log.compaction.compactor import Compactor

            throttle = Throttle(self._bytes_per_second, self._clock, self._stopped.wait)

            def on_bytes(size_bytes: int) -> None:
                if self._stopped.is_set():
                    raise CompactionStopped("the broker stops")
                throttle.take(size_bytes)

            self._compactor = Compactor(
                self._clock, memory_bytes=self._memory_bytes, on_bytes=on_bytes
            )
        return self._compactor


def _may_need_it(directory: LogDirectory) -> bool:
    """A compacted log with more than its active segment; asked before numba is loaded for it."""
    return directory.offline is None and any(
        log.config.compacted and len(log.segments) > 1 for log in directory.open_logs()
    )
