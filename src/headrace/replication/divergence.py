"""Where two logs part: what a leader tells a follower, and where the follower cuts (KIP-101, 279,
320, 595).

A log is a run of leader epochs, and only one broker wrote in each of them. So two logs are the same
as far as their epochs are: a follower tells the epoch of its last record and where it ends; the
leader looks up where the largest epoch that is not above ends in its own log. If that lies below,
or is another epoch, the logs part somewhere at or before there, and the follower cuts and asks
again. The high watermark says nothing about that: a follower's may lie behind or before the
leader's.
"""

from typing import NamedTuple, Protocol


class Divergence(NamedTuple):
    """The largest epoch the leader has that is not above the follower's, and where it ends."""

    epoch: int
    end_offset: int


class EpochLog(Protocol):
    """A log that knows who wrote what."""

    @property
    def log_end_offset(self) -> int: ...

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to `epoch` and where it ends; -1 twice when that is unknown."""


def divergence(log: EpochLog, last_epoch: int, fetch_offset: int) -> Divergence | None:
    """What a leader answers a follower whose last record, before `fetch_offset`, is of
    `last_epoch`; None when the leader's log goes on from there.

    A follower without a record (-1) has nothing to compare.
    """
    if last_epoch < 0:
        return None
    epoch, end_offset = log.epoch_end_offset(last_epoch)
    if epoch < 0:
        return Divergence(-1, -1)
    if epoch < last_epoch or end_offset < fetch_offset:
        return Divergence(epoch, end_offset)
    return None


def cut_offset(log: EpochLog, told: Divergence) -> int | None:
    """Where a follower that was told so cuts its log. The next fetch may cut further.

    None: the leader knows no epoch as old as ours, so nothing here can be compared.
    """
    if told.epoch < 0:
        return None
    epoch, end_offset = log.epoch_end_offset(told.epoch)
    if epoch < 0:
        # All of ours is newer than what the leader knows of: none of it can stay.
        return min(told.end_offset, int(log.log_end_offset))
    if epoch < told.epoch:
        return min(end_offset, int(log.log_end_offset))
    return min(end_offset, told.end_offset, int(log.log_end_offset))
