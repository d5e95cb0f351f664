"""The three that copy a topic from one source: our brokers, our process, and MirrorMaker 2.

Each has a target of its own, a broker of ours, so that what one costs there is not another's. All
have their own defaults; MirrorMaker 2 has two tasks.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from testkit.peer.mirror_maker import MirrorMaker
from testkit.process.broker_process import BrokerProcess
from testkit.process.child_process import ChildProcess
from testkit.process.mirror_process import MirrorProcess

_MIB = 1 << 20
_TASKS = 2
# The keys that the process of the tests has smaller values for.
_DEFAULTS = {
    "refresh.topics.interval.seconds": "600",
    "refresh.groups.interval.seconds": "600",
    "emit.checkpoints.interval.seconds": "60",
    "sync.group.offsets.interval.seconds": "60",
    "sync.topic.configs.interval.seconds": "600",
}
_numbers = count(1)


class MirrorSide:
    """One way to copy.

    To implement: `_copying`, which copies a topic of the source while its block runs, and yields
    the process that does it.

    Args:
        source: the address of the cluster that topics are copied from.
        target: the broker that they are copied to.

    Attributes:
        peak_rss_bytes: the most memory that a mirror process of this side had.
    """

    def __init__(self, folder: Path, source: str, target: BrokerProcess) -> None:
        self._folder = folder
        self._source = source
        self._process: ChildProcess | None = None
        self.target = target
        self.peak_rss_bytes = 0

    @contextmanager
    def copying(self, topic: str) -> Iterator[str]:
        """Copy a topic from its beginning while the block runs; yield the copy's name."""
        alias = f"from{next(_numbers)}"
        with self._copying(alias, topic) as process:
            self._process = process
            try:
                yield f"{alias}.{topic}"
            finally:
                if process.running:
                    usage = process.usage()
                    self.peak_rss_bytes = max(self.peak_rss_bytes, usage.peak_rss_bytes)
                self._process = None

    @property
    def process_cpu_seconds(self) -> float:
        """What the mirror process has cost so far."""
        return 0.0 if self._process is None else self._process.usage().cpu_seconds

    @property
    def target_cpu_seconds(self) -> float:
        """What the target's broker has cost so far."""
        return self.target.usage().cpu_seconds

    @property
    def peak_rss_mib(self) -> float:
        return self.peak_rss_bytes / _MIB

    @property
    def log(self) -> str:
        """What the mirror process says."""
        return "" if self._process is None else self._process.log[-4000:]

    @contextmanager
    def _copying(self, alias: str, topic: str) -> Iterator[ChildProcess]:
        raise NotImplementedError


class ProcessSide(MirrorSide):
    """`headrace mirror run`, exactly once; a process per copy."""

    def _settings(self, flow: str, topic: str) -> dict[str, str]:
        return {**_DEFAULTS, f"{flow}.enabled": "true", f"{flow}.topics": topic}

    @contextmanager
    def _copying(self, alias: str, topic: str) -> Iterator[ChildProcess]:
        clusters = {alias: self._source, "target": self.target.address}
        settings = self._settings(f"{alias}->target", topic)
        with MirrorProcess(self._folder / alias, clusters, settings) as process:
            yield process


class LinkSide(ProcessSide):
    """The target's broker copies, and `headrace mirror run` watches."""

    def _settings(self, flow: str, topic: str) -> dict[str, str]:
        return {**super()._settings(flow, topic), f"{flow}.headrace.copied.by": "brokers"}


class MirrorMakerSide(MirrorSide):
    """MirrorMaker 2's source connector, at least once; one worker for all copies, so that its JVM
    is warm."""

    def __init__(
        self, folder: Path, source: str, target: BrokerProcess, worker: MirrorMaker
    ) -> None:
        super().__init__(folder, source, target)
        self._worker = worker

    @contextmanager
    def _copying(self, alias: str, topic: str) -> Iterator[ChildProcess]:
        self._worker.copy(alias, self._source, alias, topic, _TASKS)
        try:
            yield self._worker
        finally:
            self._worker.end(alias)
