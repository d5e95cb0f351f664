"""The state of the cluster at one moment."""

from dataclasses import dataclass, field

from headrace.client.network.metadata import Metadata
from headrace.console.status.log_size import LogSizes
from headrace.lag.report import GroupLag
from headrace.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one poll of the cluster returned. It never changes.

    Attributes:
        at_ms: when the end offsets were read; rates are computed from it.
        groups: empty in the very first snapshot, which does not wait for committed offsets.
        took_ms: how long the poll took.
        bytes_per_record: per topic, averaged.
        min_isr: min.insync.replicas of topics with replicas out of sync.
    """

    at_ms: int
    metadata: Metadata
    ends: dict[TopicPartition, int]
    starts: dict[TopicPartition, int]
    sizes: LogSizes
    groups: dict[str, GroupLag]
    took_ms: int
    bytes_per_record: dict[str, float] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)
