"""The lag of groups at one moment."""

from dataclasses import dataclass
from typing import Any

from headrace.lag.status import Commit, LagStatus
from headrace.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition that a group has committed in. `end` is -1 where its leader did not answer."""

    partition: TopicPartition
    committed: int
    end: int
    status: LagStatus
    commits: tuple[Commit, ...] = ()

    @property
    def lag(self) -> int:
        return max(self.end - self.committed, 0) if self.end >= 0 else 0


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of one group."""

    group: str
    state: str
    type: str
    coordinator: int
    status: LagStatus
    partitions: tuple[PartitionLag, ...]

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self.partitions)

    @property
    def topics(self) -> list[str]:
        return sorted({each.partition.topic for each in self.partitions})

    def as_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "state": self.state,
            "type": self.type,
            "coordinator": self.coordinator,
            "status": str(self.status),
            "lag": self.lag,
            "partitions": [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "committed": each.committed,
                    "end": each.end,
                    "lag": each.lag,
                    "status": str(each.status),
                }
                for each in self.partitions
            ],
        }
