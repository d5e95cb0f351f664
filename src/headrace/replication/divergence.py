"""Where two logs part: what a leader reports, and where the follower truncates (KIP-101, 279, 320,
595).

A log is a run of leader epochs, and only one broker wrote in each of them. So two logs are the same
as far as their epochs are: a follower sends the epoch of its last record and where it ends; the
leader looks up where the largest epoch that is not above ends in its own log. If that lies below,
or is another epoch, the logs part somewhere at or before there, and the follower truncates and
fetches again. The high watermark decides nothing here: a follower's may be higher or lower than
the leader's.
"""

from typing import NamedTuple, Protocol


class Divergence(NamedTuple):
    """The largest epoch the leader has that is not above the follower's, and where it ends."""

    epoch: int
    end_offset: int


class EpochLog(Protocol):
    """A log that knows which leader epoch wrote what."""

    @property
    def log_end_offset(self) -> int: ...

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` and where it ends; -1 twice if unknown."""


def divergence(log: EpochLog, last_epoch: int, fetch_offset: int) -> Divergence | None:
    """Return what a leader reports to a follower whose last record, before `fetch_offset`, is of
    `last_epoch`; None when the leader's log goes on from there.

    A follower without a record (-1) has nothing to compare.
    """
    if last_epoch < 0:
        return None
    return compared(log.epoch_end_offset(last_epoch), last_epoch, fetch_offset)


def compared(leader_end: tuple[int, int], last_epoch: int, fetch_offset: int) -> Divergence | None:
    """Return what `divergence` does, for the end of `last_epoch` in the leader's log."""
    epoch, end_offset = leader_end
    if epoch < 0:
        return Divergence(-1, -1)
    if epoch < last_epoch or end_offset < fetch_offset:
        return Divergence(epoch, end_offset)
    return None


def cut_offset(log: EpochLog, reported: Divergence) -> int | None:
    """Return where a follower truncates its log after the leader reported a divergence.

    The next fetch may make it truncate further. None: the leader knows no epoch as old as the
    follower's, so nothing can be compared.
    """
    if reported.epoch < 0:
        return None
    epoch, end_offset = log.epoch_end_offset(reported.epoch)
    if epoch < 0:
        # All of this log is newer than what the leader knows of: none of it can stay.
        return min(reported.end_offset, int(log.log_end_offset))
    if epoch < reported.epoch:
        return min(end_offset, int(log.log_end_offset))
    return min(end_offset, reported.end_offset, int(log.log_end_offset))
