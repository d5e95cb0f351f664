"""Compaction in the background of a broker. Numba and the key map are loaded when first needed."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import structlog

from headrace.log.compaction.compaction_scheduler import CompactionScheduler
from headrace.log.compaction.throttle import Throttle
from headrace.log.log_directory import LogDirectory
from headrace.model.clock import Clock
from headrace.model.error import CompactionStopped, CorruptLog, StorageError
from headrace.model.ids import TopicPartition

if TYPE_CHECKING:
    from headrace.log.compaction.compactor import Compactor

log = structlog.get_logger(__name__)


class CompactionLimits(TypedDict):
    """What compaction may use: memory for its key map, and bytes read and written per second."""

    memory_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class CompactionBacklog:
    """What compaction found to do when it last looked."""

    logs: int
    dirty_bytes: int
    uncleanable: int


class CompactionWorker:
    """Compacts the directories of one broker. `run` is called in a thread, one run at a time."""

    def __init__(self, clock: Clock, *, memory_bytes: int, bytes_per_second: float) -> None:
        self._clock = clock
        self._memory_bytes = memory_bytes
        self._bytes_per_second = bytes_per_second
        self._stopped = threading.Event()
        self._compactor: Compactor | None = None
        self._schedulers: list[tuple[LogDirectory, CompactionScheduler]] = []

    def add(self, directory: LogDirectory) -> None:
        """Compact the logs of this directory from the next run on."""
        scheduler = CompactionScheduler(directory.storage, directory.path, directory.open_logs)
        self._schedulers.append((directory, scheduler))

    def configure(self, *, memory_bytes: int, bytes_per_second: float) -> None:
        """Change the limits from the next run on; a run under way keeps the ones it began with."""
        if (memory_bytes, bytes_per_second) != (self._memory_bytes, self._bytes_per_second):
            self._memory_bytes = memory_bytes
            self._bytes_per_second = bytes_per_second
            self._compactor = None

    def run(self) -> None:
        """Compact until no log needs it. What a directory refuses keeps nothing from the others."""
        for directory, scheduler in self._schedulers:
            if not _may_need_it(directory):
                continue
            compactor = self._ready_compactor()
            try:
                scheduler.run(compactor, self._stopped.is_set)
            except StorageError as error:
                log.error("compaction_failed", path=str(directory.path), reason=str(error))

    @contextmanager
    def deleting(self, *partitions: TopicPartition) -> Iterator[None]:
        """Keep compaction off partitions inside this block, and forget them afterwards.

        A damaged cleaner checkpoint does not fail a deletion, which a start may do too: compaction
        reports the damage when it runs.
        """
        with ExitStack() as paused:
            for _, scheduler in self._schedulers:
                paused.enter_context(scheduler.paused(*partitions))
            yield
            for _, scheduler in self._schedulers:
                try:
                    scheduler.forget(*partitions)
                except CorruptLog as error:
                    log.error("cleaner_checkpoint_damaged", reason=str(error))

    @contextmanager
    def moving(
        self, partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> Iterator[None]:
        """Keep compaction off a log inside this block, in which it goes on in another directory;
        its progress goes with it. Without it, all of the log would be compacted once more."""
        of = {directory: scheduler for directory, scheduler in self._schedulers}
        with ExitStack() as paused:
            for _, scheduler in self._schedulers:
                paused.enter_context(scheduler.paused(partition))
            yield
            if partition in target and partition not in source:
                try:
                    of[target].take_over(partition, of[source])
                except StorageError as error:
                    log.warning("cleaner_checkpoint_not_moved", reason=str(error))

    def backlog(self) -> CompactionBacklog:
        """Return what is left to do, over all directories; any thread may ask."""
        schedulers = [scheduler for _, scheduler in self._schedulers]
        return CompactionBacklog(
            logs=sum(each.due_logs for each in schedulers),
            dirty_bytes=sum(each.due_bytes for each in schedulers),
            uncleanable=sum(len(each.uncleanable) for each in schedulers),
        )

    def stop(self) -> None:
        """End the round under way at its next chunk."""
        self._stopped.set()

    def _ready_compactor(self) -> "Compactor":
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
    """Return whether a compacted log has more than its active segment: then load numba."""
    return directory.offline is None and any(
        log.config.compacted and len(log.segments) > 1 for log in directory.open_logs()
    )
