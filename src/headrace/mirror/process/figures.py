"""What the flows of a process have copied, as metrics."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from threading import Lock
from typing import Final

from headrace.mirror.process.source_batches import SourceBatches
from headrace.mirror.process.source_state import Stopped
from headrace.model.clock import SystemClock
from headrace.model.ids import TopicPartition
from headrace.telemetry.reading import Labels, Reading

_PARTITION: Final = ("source", "target", "topic", "partition")


@dataclass(slots=True)
class _Progress:
    position: int = 0
    end: int = 0
    newest_ms: int = -1


class FlowFigures:
    """The figures of one flow. Topics have the names of the source. Threads: any."""

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self._lock = Lock()
        self._records: Counter[TopicPartition] = Counter()
        self._bytes: Counter[TopicPartition] = Counter()
        self._lost: Counter[TopicPartition] = Counter()
        self._progress: defaultdict[TopicPartition, _Progress] = defaultdict(_Progress)
        self._stopped: dict[TopicPartition, Stopped] = {}
        self._runs = False
        self._transactions = 0

    def copied(self, batches: SourceBatches) -> None:
        """Count what was committed at the target."""
        partition = batches.partition
        with self._lock:
            self._records[partition] += batches.records
            self._bytes[partition] += batches.size_bytes
            progress = self._progress[partition]
            progress.position = batches.next_offset
            progress.end = max(batches.end, batches.next_offset)
            if batches.newest_ms >= 0:
                progress.newest_ms = batches.newest_ms

    def committed(self) -> None:
        """Count a transaction."""
        with self._lock:
            self._transactions += 1

    def lost(self, partition: TopicPartition, count: int) -> None:
        """Count offsets that the source removed before they were copied."""
        with self._lock:
            self._lost[partition] += count

    def stopped(self, stopped: dict[TopicPartition, Stopped]) -> None:
        """Set which partitions are not copied further."""
        with self._lock:
            self._stopped = dict(stopped)

    def runs(self, value: bool) -> None:
        """Set whether the flow copies, or waits for a cluster."""
        with self._lock:
            self._runs = value

    # -- reading

    def records(self) -> dict[Labels, float]:
        with self._lock:
            return {self._labels(each): n for each, n in self._records.items()}

    def bytes(self) -> dict[Labels, float]:
        with self._lock:
            return {self._labels(each): n for each, n in self._bytes.items()}

    def lost_records(self) -> dict[Labels, float]:
        with self._lock:
            return {self._labels(each): n for each, n in self._lost.items()}

    def lag(self) -> dict[Labels, float]:
        with self._lock:
            return {
                self._labels(each): progress.end - progress.position
                for each, progress in self._progress.items()
            }

    def age_seconds(self) -> dict[Labels, float]:
        now_ms = SystemClock().wall_ms()
        with self._lock:
            return {
                self._labels(each): max(0, now_ms - progress.newest_ms) / 1000
                if progress.end > progress.position
                else 0.0
                for each, progress in self._progress.items()
                if progress.newest_ms >= 0
            }

    def stopped_partitions(self) -> dict[Labels, float]:
        with self._lock:
            return {
                (*self._labels(each), stopped.reason.value): 1.0
                for each, stopped in self._stopped.items()
            }

    def flow_up(self) -> dict[Labels, float]:
        with self._lock:
            return {(self.source, self.target): float(self._runs)}

    def transactions(self) -> dict[Labels, float]:
        with self._lock:
            return {(self.source, self.target): float(self._transactions)}

    def _labels(self, partition: TopicPartition) -> Labels:
        return (self.source, self.target, partition.topic, str(partition.partition))


def readings(flows: list[FlowFigures]) -> list[Reading]:
    """Return the metrics of all flows of a process."""

    def joined(name: str) -> dict[Labels, float]:
        found: dict[Labels, float] = {}
        for flow in flows:
            found |= getattr(flow, name)()
        return found

    def counter(name: str, doc: str, figure: str, *labels: str) -> Reading:
        return Reading.counter(f"headrace_mirror_{name}", doc, lambda: joined(figure), *labels)

    def gauge(name: str, doc: str, figure: str, *labels: str) -> Reading:
        return Reading.gauge(f"headrace_mirror_{name}", doc, lambda: joined(figure), *labels)

    flow = ("source", "target")
    return [
        counter("records", "Records copied.", "records", *_PARTITION),
        counter("bytes", "Bytes of batches copied, as they lie.", "bytes", *_PARTITION),
        counter(
            "lost_records",
            "Offsets that retention removed at the source before they were copied.",
            "lost_records",
            *_PARTITION,
        ),
        counter("transactions", "Transactions committed at the target.", "transactions", *flow),
        gauge("lag", "Offsets of the source that are not copied yet.", "lag", *_PARTITION),
        gauge(
            "age_seconds",
            "Age of the newest copied record, 0 when all are copied.",
            "age_seconds",
            *_PARTITION,
        ),
        gauge(
            "stopped_partition",
            "Partitions that are not copied until a person has decided.",
            "stopped_partitions",
            *_PARTITION,
            "reason",
        ),
        gauge("flow_up", "1 while a flow copies, 0 while it waits.", "flow_up", *flow),
    ]
