"""How far a log reaches: which of two logs of one partition is the newer one."""

from typing import NamedTuple, Self

from headrace.log.partition.partition_log import PartitionLog
from headrace.model.ids import NO_LEADER_EPOCH


class LogReach(NamedTuple):
    """The leader epoch at a log's end, -1 when it is not known, and that end.

    A log that has begun again at an offset has that end, but no epoch until records come. It must
    not seem older than a log that was left behind with records in it.
    """

    epoch: int
    end: int

    @classmethod
    def of(cls, log: PartitionLog) -> Self:
        end = log.log_end_offset
        return cls(log.epochs.epoch_at(end), end)

    def is_beyond(self, other: "LogReach") -> bool:
        """Return whether this log is the newer one: by the epoch, then by the end; by the end alone
        if one of the epochs is not known."""
        if NO_LEADER_EPOCH in (self.epoch, other.epoch):
            return self.end > other.end
        return self > other
