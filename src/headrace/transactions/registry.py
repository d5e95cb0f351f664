"""All transactional ids of one coordinator shard (one partition of `__transaction_state`).

The rules of a transaction are in `transition`; this file tracks appends, markers and deadlines:

Rule 1: a change is adopted when its record is in the log, not before (`adopt`), so a crash or a
        failed append leaves nothing to undo (`reject`). One change per id at a time.
Rule 2: a prepared transaction owes a marker to each of its partitions. When the last one is
        reported written the Complete record is due. Which are written is not stored: after a
        restart all of them are written again, which is harmless.
Rule 3: what failed is tried again by `tick`, so every prepared transaction completes.
Rule 4: `now_ms` never jumps, and everything that waits is measured by it. A wall clock that is set
        ahead, or a machine that slept, would otherwise abort every open transaction at once, and
        fence producers that did nothing wrong. Records have wall-clock times, for people and for
        the next coordinator: to them `wall_minus_monotonic_ms` is added. A transaction that is
        loaded has the rest of its timeout by the wall clock, and never more than the whole: a clock
        that went back holds up no reader. Unused ids expire by the wall clock, as that takes days.

No thread and no lock: the broker calls it from one loop.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.transactions import record, transition
from headrace.transactions.config import TransactionConfig
from headrace.transactions.effect import (
    NOTHING,
    Token,
    TransactionDelivery,
    TransactionEffects,
    WriteMarkers,
)
from headrace.transactions.error import TransactionError
from headrace.transactions.listing import (
    ListingFilter,
    TransactionDescription,
    TransactionListing,
)
from headrace.transactions.message import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    VerifyReply,
)
from headrace.transactions.metadata import TransactionMetadata
from headrace.transactions.record import Record
from headrace.transactions.state import TransactionState
from headrace.transactions.transition import TakeProducerId, TransactionStep


@dataclass(slots=True)
class _Entry:
    """One transactional id and the change under way.

    `pending` is the change being appended, and `proposed` what it makes of the id (None: it
    expires). `owed` are the partitions that still need the marker of a prepared transaction, and
    `ending` numbers that transaction: with the classic protocol its epoch is not its own.
    `timeout_at_ms` is when an open transaction is aborted, by the time that does not jump.
    """

    metadata: TransactionMetadata | None = None
    pending: TransactionEffects | None = None
    proposed: TransactionMetadata | None = None
    owed: set[TopicPartition] = field(default_factory=set)
    ending: int = 0
    retry_at_ms: int | None = None
    timeout_at_ms: int = 0


class TransactionRegistry:
    """The transactional ids of one shard.

    Args:
        coordinator_epoch: the leader epoch of the shard's partition; markers carry it, so a
            partition leader can refuse those of an older coordinator.
        take_id: returns a producer id that was never given before.
        wall_minus_monotonic_ms: returns what is to be added to `now_ms` for a time in a record
            (rule 4).
    """

    def __init__(
        self,
        *,
        coordinator_epoch: int,
        take_id: TakeProducerId,
        config: TransactionConfig | None = None,
        now_ms: int,
        wall_minus_monotonic_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.config = config or TransactionConfig()
        self._wall_minus_monotonic_ms = wall_minus_monotonic_ms
        self.coordinator_epoch = coordinator_epoch
        self._take_id = take_id
        self._entries: dict[str, _Entry] = {}
        self._open: set[str] = set()
        self._endings = count()
        self._next_sweep_ms = now_ms + self._sweep_interval_ms

    # Requests

    def init_producer_id(
        self, token: Token, event: InitProducerId, now_ms: int
    ) -> TransactionEffects:
        entry = self._entries.get(event.transactional_id) or _Entry()
        step = transition.init_producer_id(
            entry.metadata,
            event,
            self._take_id,
            busy=entry.pending is not None,
            max_timeout_ms=self.config.transaction_max_timeout_ms,
            now_ms=self._wall_ms(now_ms),
        )
        return self._carry_out(token, event.transactional_id, entry, step)

    def add_partitions(self, token: Token, event: AddPartitions, now_ms: int) -> TransactionEffects:
        entry = self._entries.get(event.transactional_id) or _Entry()
        busy = entry.pending is not None
        step = transition.add_partitions(
            entry.metadata, event, busy=busy, now_ms=self._wall_ms(now_ms)
        )
        return self._carry_out(token, event.transactional_id, entry, step)

    def verify_partitions(self, event: AddPartitions) -> VerifyReply:
        entry = self._entries.get(event.transactional_id) or _Entry()
        return transition.verify_partitions(entry.metadata, event)

    def end_transaction(
        self, token: Token, event: EndTransaction, now_ms: int
    ) -> TransactionEffects:
        entry = self._entries.get(event.transactional_id) or _Entry()
        busy = entry.pending is not None
        step = transition.end_transaction(
            entry.metadata, event, self._take_id, busy=busy, now_ms=self._wall_ms(now_ms)
        )
        return self._carry_out(token, event.transactional_id, entry, step)

    def _wall_ms(self, now_ms: int) -> int:
        return now_ms + self._wall_minus_monotonic_ms()

    def _carry_out(
        self, token: Token, transactional_id: str, entry: _Entry, step: TransactionStep
    ) -> TransactionEffects:
        reply = TransactionDelivery(token, step.answer)
        if step.metadata is None:
            return TransactionEffects(replies=(reply,))
        self._entries[transactional_id] = entry
        return self._propose(entry, step.metadata, (reply,), fences=step.fences)

    def _propose(
        self,
        entry: _Entry,
        metadata: TransactionMetadata,
        replies: tuple[TransactionDelivery, ...] = (),
        *,
        fences: bool = False,
    ) -> TransactionEffects:
        entry.proposed = metadata
        entry.pending = TransactionEffects(
            transactional_id=metadata.transactional_id,
            records=(record.encode(metadata),),
            replies=replies,
            fenced=entry.metadata if fences else None,
        )
        return entry.pending

    # The log's answer

    def adopt(self, effects: TransactionEffects, now_ms: int) -> TransactionEffects:
        """Adopt the change whose records are in the log, and return what is due next."""
        entry = self._pending_entry(effects)
        entry.pending = None
        entry.retry_at_ms = None
        if entry.proposed is None:
            del self._entries[effects.transactional_id]
            return NOTHING
        if entry.metadata is None or entry.metadata.state is not TransactionState.ONGOING:
            # One that begins has its whole timeout; more partitions do not put it off.
            entry.timeout_at_ms = now_ms + entry.proposed.timeout_ms
        self._adopt(entry, entry.proposed)
        entry.proposed = None
        return self._due(entry, now_ms)

    def reject(
        self,
        effects: TransactionEffects,
        now_ms: int,
        error: TransactionError = TransactionError.COORDINATOR_NOT_AVAILABLE,
    ) -> TransactionEffects:
        """Forget the change whose append failed; the replies ask the producers to retry.

        The records may still be in the log, when the failure came after the write. They are the
        newest of their id then, so the shard must be loaded again before it answers anything else
        unless the log made sure that they are gone.
        """
        entry = self._pending_entry(effects)
        entry.pending = entry.proposed = None
        if entry.metadata is None:
            del self._entries[effects.transactional_id]
        else:
            entry.retry_at_ms = now_ms + self.config.marker_retry_backoff_ms
        return TransactionEffects(
            replies=tuple(
                TransactionDelivery(reply.token, type(reply.answer)(error=error))
                for reply in effects.replies
            )
        )

    def _pending_entry(self, effects: TransactionEffects) -> _Entry:
        entry = self._entries.get(effects.transactional_id)
        if entry is None or entry.pending is not effects:
            raise InvalidArgument(
                f"these effects are not the pending change of {effects.transactional_id!r}: "
                "adopt or reject each exactly once"
            )
        return entry

    def _adopt(self, entry: _Entry, metadata: TransactionMetadata) -> None:
        entry.metadata = metadata
        if metadata.state.prepared:
            entry.ending = next(self._endings)
            entry.owed = set(metadata.partitions)
        if metadata.state.resting:
            self._open.discard(metadata.transactional_id)
        else:
            self._open.add(metadata.transactional_id)

    # Markers

    def _due(self, entry: _Entry, now_ms: int) -> TransactionEffects:
        """Return what a prepared transaction needs next: its markers, or its Complete record."""
        metadata = entry.metadata
        if metadata is None or not metadata.state.prepared or entry.pending is not None:
            return NOTHING
        entry.retry_at_ms = None
        if not entry.owed:
            return self._propose(entry, transition.complete(metadata, self._wall_ms(now_ms)))
        return TransactionEffects(
            markers=(
                WriteMarkers(
                    ending=entry.ending,
                    transactional_id=metadata.transactional_id,
                    producer_id=metadata.producer_id,
                    producer_epoch=metadata.producer_epoch,
                    coordinator_epoch=self.coordinator_epoch,
                    commit=metadata.state is TransactionState.PREPARE_COMMIT,
                    client_version=metadata.client_version,
                    partitions=frozenset(entry.owed),
                ),
            )
        )

    def markers_written(
        self, markers: WriteMarkers, partitions: Iterable[TopicPartition], now_ms: int
    ) -> TransactionEffects:
        """Note that these partitions have their marker, or no longer exist."""
        entry = self._marked_entry(markers)
        if entry is None:
            return NOTHING
        entry.owed.difference_update(partitions)
        return NOTHING if entry.owed else self._due(entry, now_ms)

    def markers_failed(self, markers: WriteMarkers, now_ms: int) -> None:
        """Note that not every partition could be written; `tick` asks for the rest again."""
        entry = self._marked_entry(markers)
        if entry is not None:
            entry.retry_at_ms = now_ms + self.config.marker_retry_backoff_ms

    def _marked_entry(self, markers: WriteMarkers) -> _Entry | None:
        """Return the transaction these markers end; None if it is complete (markers sent twice)."""
        entry = self._entries.get(markers.transactional_id)
        if entry is None or entry.metadata is None or not entry.metadata.state.prepared:
            return None
        return entry if entry.ending == markers.ending else None

    # Time

    def next_deadline_ms(self) -> int:
        """Return when `tick` has something to do, at the latest."""
        deadlines = [self._next_sweep_ms]
        for transactional_id in self._open:
            entry = self._entries[transactional_id]
            if entry.pending is not None:
                continue
            if entry.retry_at_ms is not None:
                deadlines.append(entry.retry_at_ms)
            elif entry.metadata is not None and entry.metadata.state is TransactionState.ONGOING:
                deadlines.append(entry.timeout_at_ms)
        return min(deadlines)

    def tick(self, now_ms: int) -> list[TransactionEffects]:
        """Abort transactions past their timeout, retry what failed, and expire unused ids."""
        due: list[TransactionEffects] = []
        for transactional_id in sorted(self._open):
            effects = self._tick_open(self._entries[transactional_id], now_ms)
            if effects is not NOTHING:
                due.append(effects)
        if now_ms >= self._next_sweep_ms:
            self._next_sweep_ms = now_ms + self._sweep_interval_ms
            due.extend(self._expire(now_ms))
        return due

    def _tick_open(self, entry: _Entry, now_ms: int) -> TransactionEffects:
        metadata = entry.metadata
        if metadata is None or entry.pending is not None:
            return NOTHING
        if entry.retry_at_ms is not None and now_ms < entry.retry_at_ms:
            return NOTHING
        if metadata.state.prepared and entry.retry_at_ms is not None:
            return self._due(entry, now_ms)
        if metadata.state is TransactionState.ONGOING and now_ms >= entry.timeout_at_ms:
            fence = transition.fence(metadata, self._wall_ms(now_ms))
            return self._propose(entry, fence, fences=True)
        if metadata.state is TransactionState.ONGOING:
            entry.retry_at_ms = None
        return NOTHING

    def _expire(self, now_ms: int) -> list[TransactionEffects]:
        expired: list[TransactionEffects] = []
        limit_ms = self._wall_ms(now_ms) - self.config.transactional_id_expiration_ms
        for transactional_id, entry in self._entries.items():
            metadata = entry.metadata
            if metadata is None or entry.pending is not None or not metadata.state.resting:
                continue
            if metadata.last_update_ms <= limit_ms:
                entry.pending = TransactionEffects(
                    transactional_id=transactional_id,
                    records=(record.tombstone(transactional_id),),
                )
                expired.append(entry.pending)
        return expired

    @property
    def _sweep_interval_ms(self) -> int:
        return self.config.transaction_remove_expired_transaction_cleanup_interval_ms

    # Restart

    def load(self, records: Iterable[Record], now_ms: int) -> list[TransactionEffects]:
        """Load the shard from its records, and return what prepared transactions need next.

        Raises:
            CorruptLog: a record cannot be read; nothing is loaded then.
        """
        replayed = record.replay(records)
        self._entries.clear()
        self._open.clear()
        due: list[TransactionEffects] = []
        for transactional_id, metadata in replayed.items():
            left_ms = metadata.deadline_ms - self._wall_ms(now_ms)
            entry = self._entries[transactional_id] = _Entry(
                timeout_at_ms=now_ms + min(left_ms, metadata.timeout_ms)
            )
            self._adopt(entry, metadata)
            effects = self._due(entry, now_ms)
            if effects is not NOTHING:
                due.append(effects)
        return due

    # Reading

    def __len__(self) -> int:
        return len(self._entries)

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        """Return what is durable about the id."""
        entry = self._entries.get(transactional_id)
        return None if entry is None else entry.metadata

    def snapshot(self) -> dict[str, TransactionMetadata]:
        """Return every id as a restart would find it."""
        return {
            transactional_id: entry.metadata.durable()
            for transactional_id, entry in self._entries.items()
            if entry.metadata is not None
        }

    def list_transactions(self, filter_: ListingFilter, wall_ms: int) -> list[TransactionListing]:
        """Return the ids that a filter accepts, whose ages count by the wall clock."""
        return [
            TransactionListing(
                transactional_id=transactional_id,
                producer_id=entry.metadata.producer_id,
                state=entry.metadata.state.label,
            )
            for transactional_id, entry in sorted(self._entries.items())
            if entry.metadata is not None and filter_.accepts(entry.metadata, wall_ms)
        ]

    def describe(self, transactional_id: str) -> TransactionDescription | TransactionError:
        if not transactional_id:
            return TransactionError.INVALID_REQUEST
        entry = self._entries.get(transactional_id)
        if entry is None or entry.metadata is None:
            return TransactionError.TRANSACTIONAL_ID_NOT_FOUND
        metadata = entry.metadata
        return TransactionDescription(
            transactional_id=transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            state=metadata.state.label,
            timeout_ms=metadata.timeout_ms,
            start_ms=metadata.start_ms,
            partitions=frozenset(entry.owed) if metadata.state.prepared else metadata.partitions,
        )
