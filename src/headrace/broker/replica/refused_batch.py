"""Batches of idempotent producers that were refused for a reason that passes, and what is said to
those that were sent after them.

Theory of operation. An idempotent producer numbers its records, and has up to five requests under
way. If the first is refused for a reason that passes, as a full disk does, the others leave a gap.
Apache Kafka calls them out of order when the reason has passed, or is looked for later than the
gap. librdkafka answers that with a new epoch, for every partition it writes to, and sends all again
that has no answer yet (its issue 4953). What was appended under the old epoch is then in the log
twice. And of a producer that is not known yet the second batch would be appended, and the first
refused for good.

Rule 1: a batch that was sent after a refused one is refused for the same reason, until the first
one is in the log. Its producer sends both again, in order and in the same epoch.
Rule 2: only what was under way when the first one was refused can come after it without knowing. So
at most four batches per refusal: to a producer that has given the first one up, the gap is named.
Rule 3: only the log says what is in it. A batch that was refused here may have come to it by
another leader since.

The fast path of Produce needs none of this: it takes only the batch that comes next in the log.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from headrace.log.producer.producer_entry import REMEMBERED_BATCHES
from headrace.model.ids import TOPIC_NAME_MAX_LENGTH
from headrace.records.batch import HEADER_BYTES, Batch, is_before
from headrace.wire.error_code import ErrorCode

# After these clients send the same batch again, and it is not in the log. After
# NOT_ENOUGH_REPLICAS_AFTER_APPEND it is; after most others they give it up.
_RETRIABLE = frozenset(
    (
        ErrorCode.kafka_storage_error,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
    )
)
# Retriable as well, for a topic may be so new that this broker has not heard of it.
_UNKNOWN = frozenset((ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id))
_BEHIND = REMEMBERED_BATCHES - 1
# Up to 1,400 bytes each with the longest names: 22 megabytes when a full disk refuses so many
# partitions. Anyone may make topics up: those take no place of the others.
_MOST_PRODUCERS = 16_384
_MOST_UNKNOWN = 4_096


class NumberedBatch(NamedTuple):
    """Where a batch of an idempotent producer goes, as its request says, and which one it is."""

    topic: "str | UUID | None"
    partition: int
    producer_id: int
    epoch: int
    sequence: int

    @classmethod
    def of(
        cls, topic: "str | UUID | None", partition: int, records: memoryview | None
    ) -> "NumberedBatch | None":
        """Return None for a batch without a producer, and for one without a whole head; also where
        no topic can have such a name: it may be as long as a request."""
        if records is None or len(records) < HEADER_BYTES:
            return None
        if isinstance(topic, str) and len(topic) > TOPIC_NAME_MAX_LENGTH:
            return None
        batch = Batch(records)
        if batch.producer_id < 0:
            return None
        return cls(topic, partition, batch.producer_id, batch.producer_epoch, batch.base_sequence)


class _Refused:
    """The last refused batches of one producer in one partition and epoch."""

    __slots__ = ("code", "epoch", "left", "sequences")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.sequences: deque[int] = deque(maxlen=REMEMBERED_BATCHES)
        self.code = ErrorCode.none
        self.left = 0


_Table = OrderedDict[tuple[object, int, int], _Refused]


class RefusedBatches:
    """Remembers the last ones by partition and producer, in bounded memory.

    Threads: event loop only.
    """

    __slots__ = ("_known", "_most", "_most_unknown", "_unknown")

    def __init__(
        self, most_producers: int = _MOST_PRODUCERS, most_unknown: int = _MOST_UNKNOWN
    ) -> None:
        self._most = most_producers
        self._most_unknown = most_unknown
        self._known: _Table = OrderedDict()
        # Of topics and partitions that this broker did not know.
        self._unknown: _Table = OrderedDict()

    def __len__(self) -> int:
        return len(self._known) + len(self._unknown)

    def note(self, batch: NumberedBatch, code: int) -> None:
        """Remember that a batch was refused, if its producer will send it again."""
        if code in _RETRIABLE:
            _note(self._known, self._most, batch, ErrorCode(code))
        elif code in _UNKNOWN:
            _note(self._unknown, self._most_unknown, batch, ErrorCode(code))

    def take_reason(
        self, batch: NumberedBatch, awaits: Callable[[int, int, int], bool]
    ) -> ErrorCode | None:
        """Return why a batch before this one was refused, and count that it was said (rule 2); None
        if this one may be appended for all that is known here.

        Args:
            awaits: whether the log lacks a batch of this producer id, epoch and sequence.
        """
        reason = _take_reason(self._known, batch, awaits)
        return reason or _take_reason(self._unknown, batch, awaits)


def _note(table: _Table, most: int, batch: NumberedBatch, code: ErrorCode) -> None:
    key = batch[:3]
    refused = table.get(key)
    if refused is not None and batch.epoch < refused.epoch:
        return
    if refused is None or refused.epoch != batch.epoch:
        refused = table[key] = _Refused(batch.epoch)
        if len(table) > most:
            table.popitem(last=False)
    table.move_to_end(key)
    if batch.sequence not in refused.sequences:
        refused.sequences.append(batch.sequence)
    refused.code = code
    refused.left = _BEHIND


def _take_reason(
    table: _Table, batch: NumberedBatch, awaits: Callable[[int, int, int], bool]
) -> ErrorCode | None:
    key = batch[:3]
    refused = table.get(key)
    if refused is None or refused.epoch != batch.epoch:
        return None
    producer_id, epoch, sequence = batch[2:]
    missing = [each for each in refused.sequences if awaits(producer_id, epoch, each)]
    if not missing:
        del table[key]
    if not any(is_before(each, sequence) for each in missing):
        return None
    refused.left -= 1
    if not refused.left:
        del table[key]
    return refused.code
