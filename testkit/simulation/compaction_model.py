"""What compaction must leave of a log, worked out record by record with a dictionary.

`CompactionModel` writes a history into a real log and remembers it. `check_meaning` says what every
reader may rely on, whatever was compacted when. `expect_exact` says, after a round, which records
must be there and which must not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producer.producer_replay import remember_batch
from headrace.log.producer.producer_state import ProducerState
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.records.batch import TRANSACTIONAL_BIT
from headrace.records.compression import Codec
from testkit.sample.keyed_batch import KeyedRecord, ReadBatch, keyed_batch, read_batches


@dataclass(slots=True)
class Written:
    """One batch as it was appended."""

    base_offset: int
    last_offset: int
    records: tuple[KeyedRecord, ...]
    transaction: int | None = None
    horizon_ms: int | None = None


@dataclass(slots=True)
class CompactionModel:
    """The history of one compacted log. All of it is kept; compaction only hides.

    Attributes:
        log: the test sets it again after it opened the log again.
        outcomes: of each transaction, by number: None while it is open, then committed or not.
    """

    log: PartitionLog
    batches: list[Written] = field(default_factory=list)
    outcomes: dict[int, bool | None] = field(default_factory=dict)
    _sequences: dict[int, int] = field(default_factory=dict)
    _open: dict[int, int] = field(default_factory=dict)

    # -- the history

    def append(
        self,
        records: Sequence[KeyedRecord],
        *,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        transactional: bool = False,
    ) -> Written:
        """Append a batch. A transactional one opens a transaction if its producer has none."""
        sequence = self._sequences.get(producer_id, 0) if producer_id >= 0 else -1
        data = keyed_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT if transactional else 0,
        )
        appended = self.log.append(data, 0, from_client=False)
        self._publish()
        numbered = tuple(
            replace(record, offset=appended.base_offset + index)
            for index, record in enumerate(records)
        )
        if producer_id >= 0:
            self._sequences[producer_id] = sequence + len(records)
        transaction = None
        if transactional:
            if producer_id not in self._open:
                self._open[producer_id] = len(self.outcomes)
                self.outcomes[len(self.outcomes)] = None
            transaction = self._open[producer_id]
        written = Written(appended.base_offset, appended.last_offset, numbered, transaction)
        self.batches.append(written)
        return written

    def has_open_transaction(self, producer_id: int) -> bool:
        return producer_id in self._open

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        self.log.append_marker(producer_id, 0, 0, commit=commit, coordinator_epoch=0)
        self._publish()
        if producer_id in self._open:
            self.outcomes[self._open.pop(producer_id)] = commit

    def _publish(self) -> None:
        self.log.set_high_watermark(self.log.log_end_offset)

    def on(self, log: PartitionLog) -> "CompactionModel":
        """Return the same history in another copy of the log, to go on with separately."""
        return replace(
            self,
            log=log,
            batches=[replace(batch) for batch in self.batches],
            outcomes=dict(self.outcomes),
            _sequences=dict(self._sequences),
            _open=dict(self._open),
        )

    # -- what must hold

    def read(self) -> list[ReadBatch]:
        """Return everything that is in the log now."""
        found: list[ReadBatch] = []
        offset: int = self.log.log_start_offset
        end = self.log.log_end_offset
        while offset < end:
            data = self.log.read(offset, 1 << 20, max_offset=end).read()
            if not data:
                break
            found.extend(read_batches(data))
            offset = found[-1].head.next_offset
        return found

    def check_meaning(self) -> None:
        """Check what holds at any time, however often the log was compacted:

        1. A record that is there is one that was written, unchanged, at its offset.
        2. For each key the newest record counts: replaying what is left gives the same dictionary.
        3. Batches keep the offsets and sequences they had.
        """
        written = {record.offset: record for batch in self.batches for record in batch.records}
        spans = {batch.base_offset: batch.last_offset for batch in self.batches}
        left: dict[bytes | None, bytes | None] = {}
        aborted = self._offsets(outcome=False)
        for batch in self.read():
            if batch.head.is_control:
                continue
            base_offset = batch.head.base_offset
            assert spans[base_offset] == batch.head.last_offset, f"{batch.head!r} was moved"
            for record in batch.records:
                assert record == written[record.offset], f"{record} was {written[record.offset]}"
                if record.offset not in aborted and record.key is not None:
                    left[record.key] = record.value
        assert _living(left) == _living(self.dictionary()), "replaying gives another dictionary"

    def check_transactions(self) -> None:
        """Check what holds at any time:

        1. Every transactional batch that is left, be it only its head, is followed by the marker
           that decided it.
        2. An aborted one that still holds records is listed for readers.
        3. Nothing is listed without its marker: readers would drop what follows.
        """
        undecided: dict[int, list[ReadBatch]] = {}
        listed = self.log.aborted_transactions(0, self.log.log_end_offset)
        markers = set()
        for batch in self.read():
            head = batch.head
            if head.is_control:
                undecided.pop(head.producer_id, None)
                markers.add(head.base_offset)
            elif head.is_transactional:
                undecided.setdefault(head.producer_id, []).append(batch)
                if self._outcome_at(head.base_offset) is False and batch.records:
                    assert any(
                        entry.producer_id == head.producer_id
                        and entry.first_offset <= head.base_offset < entry.last_offset
                        for entry in listed
                    ), f"{head!r} is aborted and not listed in {listed}"
        assert {entry.last_offset for entry in listed} <= markers, f"{listed} without markers"
        for left in undecided.values():
            for batch in left:
                outcome = self._outcome_at(batch.head.base_offset)
                assert outcome is None, f"{batch.head!r} has lost its marker"

    def check_producers(self) -> None:
        """Check that a replay of what is left gives every producer its last sequence and epoch."""
        replayed = ProducerState()
        for batch in self.read():
            head = batch.head
            placed = PlacedBatch(head, head.base_offset, head.last_offset, head.max_timestamp)
            remember_batch(replayed, None, placed)
        for entry in self.log.producer_entries():
            twin = replayed.get(entry.producer_id)
            assert twin is not None, f"producer {entry.producer_id} has left no trace"
            assert (twin.epoch, twin.last_sequence, twin.in_transaction) == (
                entry.epoch,
                entry.last_sequence,
                entry.in_transaction,
            ), f"producer {entry.producer_id} reads differently"

    def _outcome_at(self, base_offset: int) -> bool | None:
        for batch in self.batches:
            if batch.base_offset == base_offset and batch.transaction is not None:
                return self.outcomes[batch.transaction]
        raise AssertionError(f"no transactional batch was written at {base_offset}")

    def dictionary(self) -> dict[bytes | None, bytes | None]:
        """Return what a reader of the whole history would hold, open transactions included."""
        aborted = self._offsets(outcome=False)
        state: dict[bytes | None, bytes | None] = {}
        for batch in self.batches:
            for record in batch.records:
                if record.offset not in aborted and record.key is not None:
                    state[record.key] = record.value
        return state

    def expect_exact(self, end_offset: int, now_ms: int, delete_retention_ms: int) -> None:
        """Check the records after a round up to `end_offset` whose map held everything.

        Below `end_offset` each key has its newest record that is not aborted, without tombstones
        whose batch got its horizon in an earlier round and has passed it. From there on all stay
        that are not aborted. (Aborted ones may stay in segments that were not rewritten.)
        """
        aborted = self._offsets(outcome=False)
        newest = self._newest(end_offset, aborted)
        expected: set[int | None] = set()
        for batch in self.batches:
            passed = batch.horizon_ms is not None and batch.horizon_ms <= now_ms
            staying = [
                record
                for record in batch.records
                if record.offset in newest and not (passed and record.value is None)
            ]
            if batch.horizon_ms is None and any(record.value is None for record in staying):
                batch.horizon_ms = now_ms + delete_retention_ms
            expected.update(record.offset for record in staying)
            expected.update(
                record.offset
                for record in batch.records
                if _at(record) >= end_offset and record.offset not in aborted
            )
        found = {
            record.offset
            for batch in self.read()
            if not batch.head.is_control
            for record in batch.records
            if not (record.offset in aborted and batch.head.base_offset >= end_offset)
        }
        assert found == expected

    def _newest(self, end_offset: int, aborted: set[int | None]) -> set[int | None]:
        """Return the offset of the newest record of each key below `end_offset`."""
        newest: dict[bytes, int] = {}
        for batch in self.batches:
            for record in batch.records:
                counts = _at(record) < end_offset and record.offset not in aborted
                if counts and record.key is not None:
                    newest[record.key] = _at(record)
        return set(newest.values())

    def _offsets(self, *, outcome: bool | None) -> set[int | None]:
        return {
            record.offset
            for batch in self.batches
            if batch.transaction is not None and self.outcomes[batch.transaction] is outcome
            for record in batch.records
        }


def _at(record: KeyedRecord) -> int:
    assert record.offset is not None, "it was written, so it has an offset"
    return record.offset


def _living(state: dict[bytes | None, bytes | None]) -> dict[bytes | None, bytes | None]:
    """Return the keys with a value: a tombstone and a missing key mean the same."""
    return {key: value for key, value in state.items() if value is not None}
