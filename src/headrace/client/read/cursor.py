"""How far fetching has come in one partition. Pure: answers go in, what is to be decoded comes out.

Rule 1: the position moves only over what was handed on for decoding, or what the leader showed not
to be there. So whatever is asked again after a failure is neither lost nor doubled.
Rule 2: an answer counts only if it answers the question for the present position.
Rule 3: that nothing came means that nothing is there only if the leader had room for it (an answer
is filled in the order of the request) and lets us see past it, and if it would not be silent about
what it has to fetch from elsewhere (`GapEvidence`). Compaction leaves such gaps, and at the end of
a log nothing behind them tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from headrace.client.error import ClientError
from headrace.model.error import PeerError
from headrace.model.ids import TopicPartition
from headrace.records.heads import PAST_EVERY_OFFSET, scan_heads

_NO_BYTES = memoryview(b"")
_SILENT_ANSWERS = 3


class FetchedRange(NamedTuple):
    """What one answer gave of one partition.

    Attributes:
        offset: the first that is wanted; the first batch may begin before it.
        end: the first that is not wanted any more, or None.
        next_offset: where the partition is read on when `data` is done with.
        data: whole batches. Empty when there is nothing between `offset` and `next_offset`.
        aborted: (producer id, first offset) of aborted transactions.
        lost: what lay between `offset` and `next_offset` was wanted, and is gone.
    """

    partition: TopicPartition
    offset: int
    end: int | None
    next_offset: int
    data: memoryview = _NO_BYTES
    aborted: Sequence[tuple[int, int]] = ()
    lost: bool = False


@dataclass(slots=True, eq=False)
class Cursor:
    """One partition.

    Attributes:
        position: the next offset to ask for.
        end: the first offset that is not wanted, or None to go on for ever.
        log_start, visible: where the log begins, and how far the leader lets us see, by what it
            said last; -1 before that.
        topic_id: the topic's id when it was first looked at: another one is another topic.
        leader_epoch: the epoch of the leader we know, so that an older one does not answer.
        broken: the bytes at `position` are damaged: it is not asked again.
        failing_since: when it first went wrong, since it last went well.
        moved_at: when the position last moved.
        cut_since: since when nothing but the beginning of a batch comes.
        silent_since, silent_count: since when, and how often, nothing came although the leader sees
            past the end.
    """

    partition: TopicPartition
    position: int
    end: int | None
    log_start: int = -1
    visible: int = -1
    topic_id: UUID | None = None
    leader_epoch: int = -1
    broken: bool = False
    failing_since: float | None = None
    moved_at: float = 0.0
    cut_since: float | None = None
    silent_since: float | None = None
    silent_count: int = 0

    @property
    def done(self) -> bool:
        return self.broken or (self.end is not None and self.position >= self.end)

    @property
    def may_wait(self) -> bool:
        """Whether the leader may wait for records: there may be none before the end otherwise.

        One that was silent and is not believed gets the time to fetch them from elsewhere.
        """
        return self.end is None or self.visible < self.end or self.silent_count > 0

    def take(self, data: memoryview, aborted: Sequence[tuple[int, int]]) -> FetchedRange | None:
        """Move over batches. None when no whole one is among them.

        Raises:
            ClientError: they lie before what was asked for.
        """
        offset = self.position
        try:
            past = PAST_EVERY_OFFSET if self.end is None else self.end
            heads = scan_heads(data, offset, past)
        except PeerError:
            # Whoever decodes it tells what is wrong with which batch, behind those that are sound.
            self.broken = True
            return FetchedRange(self.partition, offset, self.end, offset, data, aborted)
        if heads.ended and self.end is not None:
            self.position = self.end
        elif not len(heads):
            return None
        else:
            self.position = heads.next_offset or 0
            if self.end is not None:
                self.position = min(self.position, self.end)
        if self.position <= offset:
            self.position = offset
            raise ClientError(
                f"the leader of {self.partition} answers offset {offset} with records before it"
            )
        whole = data[: heads.consumed_bytes]
        return FetchedRange(self.partition, offset, self.end, self.position, whole, aborted)

    @property
    def may_end_in_gap(self) -> bool:
        """Whether the leader sees past the end, so that its silence can mean that nothing is left
        before it."""
        return self.end is not None and self.position < self.end <= self.visible

    def hear_nothing(self, now: float) -> None:
        """Count a silence (see `may_end_in_gap`)."""
        if self.silent_since is None:
            self.silent_since = now
        self.silent_count += 1

    def silent_for(self, seconds: float, now: float) -> bool:
        """Whether nothing has come for so long, and not just because nobody asked."""
        if self.silent_since is None or now - self.silent_since < seconds:
            return False
        return seconds == 0 or self.silent_count >= _SILENT_ANSWERS

    def moved(self, now: float) -> None:
        """The position moved: whatever was held against the leader is forgotten."""
        self.moved_at, self.cut_since = now, None
        self.silent_since, self.silent_count = None, 0

    def pass_gap(self) -> FetchedRange:
        """Nothing is left between the position and the end: move there."""
        assert self.end is not None
        offset, self.position = self.position, self.end
        return FetchedRange(self.partition, offset, self.end, self.end)

    def skip(self, to: int) -> FetchedRange:
        """Give up what lies before `to`, or, where a log was cut, go back to it."""
        offset, self.position = self.position, to
        return FetchedRange(self.partition, offset, self.end, to, lost=True)
