"""The position of fetching in one partition. Pure: takes responses, returns ranges to decode.

Rule 1: the position moves only over bytes that were handed on for decoding, or over offsets that
the leader showed to hold no record. So a fetch that is repeated after a failure loses and doubles
none.
Rule 2: a response counts only if its request was for the present position.
Rule 3: an empty response means a gap in the log only if all of these hold: the leader had room for
records (it fills a response in the order of the request), its high watermark lies past the gap, and
it does not have to fetch the records from remote storage first (`GapEvidence`). Compaction leaves
such gaps; at the end of a log no later record shows them.
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
    """The offsets of one partition that one response covers, and their bytes.

    Attributes:
        offset: the first offset to decode; the first batch may begin before it.
        end: the offset to stop decoding at, or None.
        next_offset: where reading continues after `data`.
        data: whole batches. Empty when no record lies between `offset` and `next_offset`.
        aborted: (producer id, first offset) of aborted transactions.
        lost: the records between `offset` and `next_offset` are gone and were not read.
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
    """The position in one partition, and what its leader reported last.

    Attributes:
        position: the next offset to fetch.
        end: the offset to stop at, or None to continue for ever.
        log_start, visible: the log start, and the high watermark or last stable offset, from the
            last response; -1 before that.
        topic_id: the topic's id in the first metadata. Another id means that the topic was deleted
            and created again.
        leader_epoch: the epoch of the known leader, so that an older leader refuses the fetch.
        broken: the bytes at `position` are damaged: it is not fetched again.
        failing_since: when the first failure after the last success happened.
        moved_at: when the position last moved.
        cut_since: since when responses hold only the beginning of a batch.
        silent_since, silent_count: since when, and how many times, a response had no records
            although the leader's high watermark lies past the end.
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
        """Whether nothing more is to be fetched."""
        return self.broken or (self.end is not None and self.position >= self.end)

    @property
    def may_wait(self) -> bool:
        """Whether the leader may wait for records before it responds.

        It need not wait when its log reaches past the end: a gap is then reported at once. A leader
        whose empty response is in doubt gets the time to fetch records from remote storage.
        """
        return self.end is None or self.visible < self.end or self.silent_count > 0

    def advance(self, data: memoryview, aborted: Sequence[tuple[int, int]]) -> FetchedRange | None:
        """Move the position over batches. Return None when no whole batch is among them.

        Raises:
            ClientError: the batches lie before the position.
        """
        offset = self.position
        try:
            past = PAST_EVERY_OFFSET if self.end is None else self.end
            heads = scan_heads(data, offset, past)
        except PeerError:
            # The decoder reports which batch is damaged, after the chunks of the batches before it.
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
        """Whether the leader's log reaches past the end, so that an empty response can mean that no
        record is left before the end."""
        return self.end is not None and self.position < self.end <= self.visible

    def count_silence(self, now: float) -> None:
        """Count a response without records (see `may_end_in_gap`)."""
        if self.silent_since is None:
            self.silent_since = now
        self.silent_count += 1

    def silent_for(self, seconds: float, now: float) -> bool:
        """Return whether responses had no records for so long, over several of them."""
        if self.silent_since is None or now - self.silent_since < seconds:
            return False
        return seconds == 0 or self.silent_count >= _SILENT_ANSWERS

    def moved(self, now: float) -> None:
        """Note that the position moved: reset what was counted against the leader."""
        self.moved_at, self.cut_since = now, None
        self.silent_since, self.silent_count = None, 0

    def pass_gap(self) -> FetchedRange:
        """Move to the end: no record is left before it."""
        assert self.end is not None
        offset, self.position = self.position, self.end
        return FetchedRange(self.partition, offset, self.end, self.end)

    def skip(self, to: int) -> FetchedRange:
        """Move to `to` and report what lies between as lost; back, if the log was truncated."""
        offset, self.position = self.position, to
        return FetchedRange(self.partition, offset, self.end, to, lost=True)
