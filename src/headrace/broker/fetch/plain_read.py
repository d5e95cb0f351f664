"""Reading a partition of a consumer's fetch where nothing is special about it.

A consumer without a fetch session names all its partitions in every fetch, and of a thousand most
have nothing new, or others have filled the response. So one call looks at a partition that this
broker leads, and answers for it or reads its log. It declines everything else: the fetch then
looks at the partition in full (`ConsumerFetch`), and both say the same.
"""

from uuid import UUID

from headrace.broker.fetch.fetch_result import PartitionResult, aborted_transactions
from headrace.broker.replica.fetch_session import FetchedPartition
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import TopicTable
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import HeadraceError
from headrace.wire.fetch_response import AbortedTransaction, FetchPartitionResult

# Makes a NamedTuple in half the time its own constructor takes.
_new = tuple.__new__


class PlainReads:
    """Reads the partitions of one fetch, of a consumer that may read them all.

    It is good for one look at the partitions: the topic that it has found is not looked up again.

    Args:
        committed: the reader asked for committed records only.
        counts_cold: the fetch counts the old offsets that it looks up after its first records, so
            those are declined.
    """

    __slots__ = ("_committed", "_counts_cold", "_name", "_partitions", "_topic_id", "_topics")

    def __init__(self, topics: TopicTable, *, committed: bool, counts_cold: bool = False) -> None:
        self._topics = topics
        self._committed = committed
        self._counts_cold = counts_cold
        self._name: str | None = None
        self._topic_id: UUID | None = None
        self._partitions: list[Partition | None] = []

    def read(
        self, item: FetchedPartition, budget: int, *, at_least_one: bool, is_full: bool
    ) -> PartitionResult | None:
        """Return what a partition has for the reader; None if it must be looked at in full.

        Args:
            budget: how many bytes of records the response has room for.
            at_least_one: a first batch larger than that is returned whole.
            is_full: read no records: the response has all that it will hold.
        """
        index, claimed_epoch, fetch_offset, last_fetched_epoch, _, max_bytes = item.requested
        if item.topic_id is not self._topic_id or item.name is not self._name:
            self._look_up(item)
        partitions = self._partitions
        if not 0 <= index < len(partitions) or last_fetched_epoch >= 0:
            return None
        partition = partitions[index]
        if partition is None or 0 <= claimed_epoch != partition.leader_epoch:
            return None
        log = partition.log
        if log.storage.failure is not None:
            return None
        high_watermark, last_stable = log.high_watermark, log.last_stable_offset
        bound = last_stable if self._committed else high_watermark
        log_start = log.log_start_offset
        size = 0
        piece: LogSlice | None = None
        aborted: list[AbortedTransaction] | None = [] if self._committed else None
        if fetch_offset != bound and not (is_full and log_start <= fetch_offset < bound):
            if self._counts_cold and not at_least_one and not log.is_recent(fetch_offset):
                return None
            limit = max_bytes if max_bytes < budget else budget
            try:
                piece = log.read(
                    fetch_offset,
                    limit if limit > 0 else 0,
                    max_offset=bound,
                    at_least_one=at_least_one,
                )
                size = piece.size
                if self._committed:
                    aborted = aborted_transactions(log, fetch_offset, piece)
            except HeadraceError:
                return None
        row = (index, 0, high_watermark, last_stable, log_start, size, piece, aborted)
        return _new(FetchPartitionResult, (*row, -1, None, None))

    def _look_up(self, item: FetchedPartition) -> None:
        topic = self._topics.named(item.name, item.topic_id)
        self._name, self._topic_id = item.name, item.topic_id
        self._partitions = [] if topic is None else topic.partitions
