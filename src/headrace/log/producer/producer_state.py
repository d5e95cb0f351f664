"""What a partition knows of its producers: their sequences and their transactions (KIP-98).

Theory of operation. An idempotent producer numbers its records per partition. The leader appends a
batch only if it continues the last one, and answers a batch that it has already with the offsets it
has. A transactional producer's records stay invisible to read_committed readers until its marker
comes; the *first unstable offset* is where those readers must stop.

Rule 1: this file does no I/O and reads no clock. `check` looks, `append` and `end_transaction`
change; the owner writes to the log in between. So a failed write leaves no trace here.

Rule 2: the state is a function of the log. Replaying the batches after a snapshot, with
`AppendOrigin.REPLICATION`, gives what the leader had. Everything that decides must be in the batch.

Rule 3: as Kafka since 2.5 (KIP-360), a producer we know nothing of may begin at any sequence: its
state may have expired, and refusing would cost it its records. Transaction version 2 (KIP-890) is
strict again, because there the epoch rises with every transaction: it must begin at 0.

Rule 4: a duplicate older than the last five batches is out of order, not a duplicate: producers
keep at most five requests in flight, so no honest one sends it.

Rule 5: a batch with a number of a transaction that has ended is no duplicate. A producer ends a
transaction when it has all answers, so this is another batch. librdkafka takes numbers twice if it
aborts while a batch that was sent waits to be sent again: the second one would be acknowledged, and
be missing. After UNKNOWN_PRODUCER_ID it begins a new epoch; out of order would be its end.

Threads: one at a time (the log's lock). Other readers get what the log publishes from here.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from headrace.log.producer.producer_entry import (
    REMEMBERED_BATCHES,
    BatchMetadata,
    Duplicate,
    ProducerEntry,
)
from headrace.model.error import (
    CoordinatorFenced,
    InvalidArgument,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    UnknownProducer,
)
from headrace.model.ids import NO_PRODUCER_ID
from headrace.model.offset import NO_OFFSET, Offset
from headrace.records.batch import is_before

DEFAULT_EXPIRATION_MS = 24 * 60 * 60 * 1000


class AppendOrigin(Enum):
    """Who appends, which decides how much is checked."""

    CLIENT = "client"
    """A producer: epoch and sequence are checked."""

    COORDINATOR = "coordinator"
    """A coordinator of ours (offset commits in a transaction): only the epoch is checked."""

    REPLICATION = "replication"
    """The leader, or our own log on replay: it was checked there, and is only remembered."""


class CompletedTransaction(NamedTuple):
    """A transaction that had records here, and its marker.

    Attributes:
        last_offset: of the marker.
        last_stable_offset: where read_committed readers may go once the marker is replicated: the
            first offset of the oldest transaction still open, or one past the marker. The
            transaction index stores it with an abort.
    """

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    aborted: bool
    last_stable_offset: Offset


class _UnstableTransactions(NamedTuple):
    """The transactions that hold back the last stable offset. In one tuple, so that a reader
    without the lock never sees one field replaced and the other not.

    Attributes:
        ongoing: first offset to producer id. Offsets only grow, so the order of arrival is their
            order.
        unreplicated: a heap of (first offset, marker's offset) of decided transactions whose marker
            is at or above the high watermark. One below the top may be past due: it goes when it
            surfaces.
    """

    ongoing: OrderedDict[int, int]
    unreplicated: list[tuple[int, int]]


class ProducerState:
    """The producers of one partition, by id, and its open transactions."""

    __slots__ = ("_high_watermark", "_producers", "_snapshotted", "_unstable")

    def __init__(self) -> None:
        self._producers: dict[int, ProducerEntry] = {}
        # Producers whose last batch came from a snapshot, and whose earlier ones are not recalled.
        self._snapshotted: set[int] = set()
        self._unstable = _UnstableTransactions(OrderedDict(), [])
        self._high_watermark = 0

    def __len__(self) -> int:
        return len(self._producers)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._producers.get(producer_id)

    def entries(self) -> Iterator[ProducerEntry]:
        """Return all producers: what a snapshot holds, and what DescribeProducers reports."""
        return iter(self._producers.values())

    # -- batches -------------------------------------------------------------------------------

    def expecting(
        self, producer_id: int, epoch: int, sequence: int, *, transactional: bool = False
    ) -> ProducerEntry | None:
        """Return the producer, if this is just what comes next from it: a transactional batch while
        its transaction is open here, another one while none is.

        None decides nothing: call `check`.
        """
        entry = self._producers.get(producer_id)
        if (
            entry is None
            or entry.epoch != epoch
            or entry.next_sequence != sequence
            or (entry.transaction_first_offset >= 0) is not transactional
        ):
            return None
        return entry

    def awaits(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Return whether a batch is not in the log, and may come yet: what comes next from its
        producer is this batch, or one before it, or unknown."""
        entry = self._producers.get(producer_id)
        if entry is None or epoch > entry.epoch:
            return True
        return epoch == entry.epoch and not is_before(sequence, entry.next_sequence)

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        *,
        transactional: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        strict_start: bool = False,
    ) -> Duplicate | None:
        """Check whether a batch may be appended: None if so, a `Duplicate` if the log has it.

        Args:
            strict_start: the producer speaks transaction version 2: if we do not know it, it must
                begin at sequence 0 (KIP-890).

        Raises:
            InvalidProducerEpoch: the producer has been fenced.
            OutOfOrderSequence: it does not continue what is there.
            UnknownProducer: its number was used in a transaction that has ended.
            InvalidTransactionState: a plain write while the producer's transaction is open.
        """
        if producer_id < 0 or origin is AppendOrigin.REPLICATION:
            return None
        entry = self._producers.get(producer_id)
        if entry is None:
            if strict_start and first_sequence != 0 and origin is AppendOrigin.CLIENT:
                raise OutOfOrderSequence(
                    f"producer {producer_id} is not known here and must begin with sequence 0, "
                    f"not {first_sequence}"
                )
            return None
        if entry.epoch != epoch or entry.next_sequence != first_sequence:
            if transactional and origin is AppendOrigin.CLIENT and epoch == entry.epoch:
                _check_transaction(entry, first_sequence)
            duplicate = self._check_slowly(entry, epoch, first_sequence, last_sequence, origin)
            if duplicate is not None:
                return duplicate
        if entry.transaction_first_offset >= 0 and not transactional:
            raise InvalidTransactionState(
                f"producer {producer_id} has an open transaction since offset "
                f"{entry.transaction_first_offset}: its batches must be transactional until it ends"
            )
        return None

    def _check_slowly(
        self,
        entry: ProducerEntry,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        origin: AppendOrigin,
    ) -> Duplicate | None:
        """Check anything but the next batch of the same epoch."""
        if origin is AppendOrigin.CLIENT:
            duplicate = entry.duplicate(epoch, first_sequence, last_sequence)
            if duplicate is not None:
                return duplicate
        if epoch < entry.epoch:
            raise InvalidProducerEpoch(
                f"producer {entry.producer_id} writes with epoch {epoch}, but epoch {entry.epoch} "
                f"was seen: it has been replaced"
            )
        expected = 0 if epoch != entry.epoch else entry.next_sequence
        if origin is AppendOrigin.CLIENT and first_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {entry.producer_id} epoch {epoch} sends sequence {first_sequence} where "
                f"{expected} comes next"
            )
        return None

    def append(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp_ms: int,
        *,
        transactional: bool = False,
    ) -> None:
        """Remember a batch that is in the log. One without a producer leaves no trace."""
        if producer_id < 0:
            return
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerEntry(producer_id)
        if entry.epoch != epoch:
            entry.start_epoch(epoch)
        entry.remember(first_sequence, last_sequence, base_offset, last_offset, timestamp_ms)
        if transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = base_offset
            self._unstable.ongoing[base_offset] = producer_id

    def take_incomplete(self, producer_id: int, epoch: int) -> ProducerEntry | None:
        """Return the producer if only its last batch came from a snapshot.

        At most once per producer. The log has what came before (`producer_recall`): hand it to
        `recall`.
        """
        entry = self._producers.get(producer_id)
        if producer_id not in self._snapshotted or entry is None:
            return None
        self._snapshotted.discard(producer_id)
        full = len(entry.batches) == REMEMBERED_BATCHES
        return None if full or not entry.batches or entry.epoch != epoch else entry

    def recall(self, entry: ProducerEntry, before: Iterable[BatchMetadata]) -> None:
        """Remember these as well, which come before all that is remembered."""
        entry.batches = deque((*before, *entry.batches), REMEMBERED_BATCHES)

    # -- transactions --------------------------------------------------------------------------

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether this very producer has an undecided transaction with records here."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.epoch == epoch and entry.in_transaction

    def check_marker(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        *,
        transaction_version: int = 0,
    ) -> None:
        """Check whether a coordinator's marker may be appended. Replicated ones are not checked.

        Since transaction version 2 the coordinator raises the epoch before it writes the marker, so
        a marker with the epoch we know is late, and would end the transaction after its own. Only
        when nothing is open is it let through: then it is a retry of one that got here (KIP-890).

        Raises:
            InvalidProducerEpoch: the marker is older than the producer.
            CoordinatorFenced: another coordinator has taken over since.
        """
        if producer_id < 0:
            raise InvalidArgument("a transaction marker needs a producer id of at least 0")
        entry = self._producers.get(producer_id)
        if entry is None:
            return
        lowest = entry.epoch
        if transaction_version >= 2 and entry.in_transaction:
            lowest += 1
        if epoch < lowest:
            raise InvalidProducerEpoch(
                f"the marker of producer {producer_id} has epoch {epoch}, at least {lowest} "
                f"is needed"
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise CoordinatorFenced(
                f"the marker of producer {producer_id} comes from coordinator epoch "
                f"{coordinator_epoch}, but {entry.coordinator_epoch} was seen"
            )

    def end_transaction(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp_ms: int,
        *,
        aborted: bool,
    ) -> CompletedTransaction | None:
        """Remember a marker that is in the log at `offset`.

        None when the producer had written nothing here: then no reader waits for the marker.
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerEntry(producer_id)
        first_offset = entry.transaction_first_offset
        entry.start_epoch(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp_ms = timestamp_ms
        entry.transaction_first_offset = NO_OFFSET
        if first_offset < 0:
            return None
        # In this order: `has_unstable` is asked without the lock, and must see one of them.
        ongoing, unreplicated = self._unstable
        if offset >= self._high_watermark:
            heapq.heappush(unreplicated, (first_offset, offset))
        del ongoing[first_offset]
        undecided = self.first_undecided_offset()
        return CompletedTransaction(
            producer_id,
            Offset(first_offset),
            Offset(offset),
            aborted,
            Offset(offset + 1) if undecided is None else undecided,
        )

    def first_undecided_offset(self) -> Offset | None:
        """Return where the oldest open transaction begins; compaction stops there."""
        ongoing = self._unstable.ongoing
        return Offset(next(iter(ongoing))) if ongoing else None

    @property
    def has_unstable(self) -> bool:
        """Whether a transaction is open, or decided by a marker that is not replicated yet. Any
        thread may ask; `first_unstable_offset` needs the lock of the log."""
        ongoing, unreplicated = self._unstable
        return bool(ongoing or unreplicated)

    def first_unstable_offset(self) -> Offset | None:
        """Return where the oldest transaction begins that is open, or decided by a marker that is
        not replicated yet. The last stable offset is this, within log start and high watermark.
        """
        ongoing, unreplicated = self._unstable
        if not ongoing and not unreplicated:
            return None
        first = self.first_undecided_offset()
        if unreplicated and (first is None or unreplicated[0][0] < first):
            return Offset(unreplicated[0][0])
        return first

    def advance(self, high_watermark: int) -> None:
        """Count markers below `high_watermark` as replicated; free when no transaction waits.

        Called for a new log start as well: nothing below it is waited for.
        """
        if high_watermark <= self._high_watermark:
            return
        self._high_watermark = high_watermark
        unreplicated = self._unstable.unreplicated
        while unreplicated and unreplicated[0][1] < high_watermark:
            heapq.heappop(unreplicated)

    @property
    def has_markers(self) -> bool:
        """Whether a producer that is known here ever ended a transaction."""
        return any(each.coordinator_epoch >= 0 for each in self._producers.values())

    def add_unreplicated_of(self, other: "ProducerState") -> None:
        """Hold the last stable offset back for the markers, too, that another state of the same log
        does."""
        for each in other._unstable.unreplicated:
            heapq.heappush(self._unstable.unreplicated, each)

    def add_unreplicated(self, first_offset: int, marker_offset: int) -> None:
        """Hold the last stable offset at `first_offset` until a marker's offset is replicated."""
        heapq.heappush(self._unstable.unreplicated, (first_offset, marker_offset))

    # -- lifetime ------------------------------------------------------------------------------

    def expire(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> list[int]:
        """Forget the producers that were idle for `producer.id.expiration.ms`; return which.

        While a marker is unreplicated, keeps one producer that ever ended a transaction:
        `has_markers`, asked after a start from a later snapshot, must still find one.
        """
        gone = [
            producer_id
            for producer_id, entry in self._producers.items()
            if entry.expired(now_ms, expiration_ms)
        ]
        if self._unstable.unreplicated:
            enders = {each for each in gone if self._producers[each].coordinator_epoch >= 0}
            left = self._producers.keys() - gone
            if enders and not any(self._producers[each].coordinator_epoch >= 0 for each in left):
                gone.remove(max(enders))
        for producer_id in gone:
            del self._producers[producer_id]
            self._snapshotted.discard(producer_id)
        return gone

    def clear(self) -> None:
        """Forget everything, because the log was emptied or a snapshot is about to be loaded."""
        self._producers = {}
        self._snapshotted = set()
        self._unstable = _UnstableTransactions(OrderedDict(), [])
        self._high_watermark = 0

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Begin with these, as a snapshot had them."""
        self.clear()
        for entry in entries:
            if entry.producer_id <= NO_PRODUCER_ID:
                raise InvalidArgument(f"a producer cannot have the id {entry.producer_id}")
            self._producers[entry.producer_id] = entry
        self._snapshotted = set(self._producers)
        open_ones = [entry for entry in self._producers.values() if entry.in_transaction]
        for entry in sorted(open_ones, key=lambda entry: entry.transaction_first_offset):
            self._unstable.ongoing[entry.transaction_first_offset] = entry.producer_id

    def adopt(self, other: "ProducerState") -> None:
        """Become another state, which no one else uses. Until then a thread without the lock sees
        this one whole, and never one that is half loaded."""
        self._unstable = other._unstable
        self._producers = other._producers
        self._snapshotted = other._snapshotted
        self._high_watermark = other._high_watermark


def _check_transaction(entry: ProducerEntry, first_sequence: int) -> None:
    """Check that a batch that does not come next was not used before the open transaction (rule 5).

    Raises:
        UnknownProducer: its number is one of a transaction that has ended.
    """
    if not is_before(first_sequence, entry.next_sequence):
        return
    opened = entry.transaction_first_offset
    known = [each.first_sequence for each in entry.batches if 0 <= opened <= each.first_offset]
    if not known or is_before(first_sequence, known[0]):
        raise UnknownProducer(
            f"producer {entry.producer_id} sends sequence {first_sequence} again, which it used in "
            f"a transaction that has ended: {entry.next_sequence} comes next"
        )
