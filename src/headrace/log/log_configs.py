"""The configurations of the logs in one directory, which change while logs are made and opened."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.topic_config import LogConfig


class LogConfigs:
    """Gives logs their configuration, and gives it again when it has changed.

    Invariant: a log that is served has the newest configuration. One that is being made or opened,
    while a change is given to those that are served, would miss it: it gets it as it joins them.

    Threads: any.

    Attributes:
        changes: counts changes. Read it before you ask for a log's configuration, and pass it to
            `joining`.
    """

    def __init__(self, of_topic: Callable[[str], LogConfig]) -> None:
        self.of_topic = of_topic
        self.changes = 0
        self._lock = Lock()

    def give(self, served: Callable[[], Iterable[PartitionLog]]) -> None:
        """Give the logs their configuration, which has changed; `served` says which they are."""
        with self._lock:
            self.changes += 1
            logs = list(served())
            topics = {log.partition.topic for log in logs}
            configs = {topic: self.of_topic(topic) for topic in topics}
            for log in logs:
                log.config = configs[log.partition.topic]

    @contextmanager
    def joining(self, log: PartitionLog | None, changes: int) -> Iterator[None]:
        """Hold off changes while the caller adds `log` to the served logs inside the block; then
        give it the newest configuration if it missed one. None: nothing is added.

        Args:
            changes: how many there were before its configuration was asked for; -1 for a log that
                comes from another directory, which may or may not have given it the last one.
        """
        with self._lock:
            yield
            if log is not None and changes != self.changes:
                log.config = self.of_topic(log.partition.topic)
