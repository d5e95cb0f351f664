"""Compaction in the background of a broker: numba and the key map are loaded when first needed."""

import threading
from typing import TYPE_CHECKING

from headrace.log.cleaner import Cleaner
from headrace.log.log_directory import LogDirectory
from headrace.log.throttle import Throttle
from headrace.model.clock import Clock

if TYPE_CHECKING:
    from headrace.log.compaction import Compactor


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
            Cleaner(directory.storage.filesystem, directory.path, clock, directory.open_logs)
            for directory in directories
        ]

    def run(self) -> None:
        """Compact until no log needs it."""
        for cleaner in self._cleaners:
            while not self._stopped.is_set() and cleaner.has_work():
                if cleaner.run_once(self._made_compactor()) is None:
                    break

    def stop(self) -> None:
        """End the round under way at its next chunk."""
        self._stopped.set()

    def _made_compactor(self) -> "Compactor":
        if self._compactor is None:
            from headrace.log.compaction import Compactor

            throttle = Throttle(self._bytes_per_second, self._clock, self._stopped.wait)
            self._compactor = Compactor(
                self._clock,
                memory_bytes=self._memory_bytes,
                on_bytes=throttle.take,
                stopping=lambda _: self._stopped.is_set(),
            )
        return self._compactor
