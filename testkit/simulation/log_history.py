"""Random histories of one partition on a disk that fails, and what must hold after every reopen.

A history is a function of its seed: `LogHistory(seed).run()` repeats it exactly.

The model is a list of batches. Beside it stand the bounds that the log promised: what was synced
must be there, what was deleted must be gone, and a call that the power cut short may have happened
or not.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.log.producer.producer_state import ProducerState
from headrace.model.clock import ManualClock
from headrace.model.error import DiskFull, StorageError
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.batch import Batch, iter_batches
from headrace.records.control import ControlType, read_control
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault, PowerLoss
from testkit.sample.batch import sample_batch

PARTITION = TopicPartition("clicks", 0)
_PATH = Path("/data")
_BUDGET = 1 << 20


@dataclass(slots=True)
class ModelProducer:
    epoch: int = 0
    sequence: int = 0
    in_transaction: bool = False


class LogHistory:
    """One seeded history. Every method that starts with `_do_` is one of its steps."""

    def __init__(self, seed: int, *, faults: bool = True, power_loss_at: int | None = None) -> None:
        """
        Args:
            faults: let calls fail at random; without, there are only crashes between steps.
            power_loss_at: cut the power at this change of the disk, counted from the start.
        """
        self.seed = seed
        self.trace: list[str] = []
        self._rng = Random(seed)
        self._faults = faults
        self._armed = False
        self._clock = ManualClock()
        self._disk = CrashDisk()
        self._config = LogConfig(
            segment_bytes=self._rng.choice((1024, 1500, 4000)),
            index_interval_bytes=self._rng.choice((0, 150, 600)),
            retention_ms=50_000,
            file_delete_delay_ms=self._rng.choice((0, 1000)),
        )
        # What the log holds, all that was ever acknowledged and not truncated, from offset 0 on.
        self._batches: list[bytes] = []
        self._doubtful: list[bytes] = []
        self._synced = 0
        self._start_least = 0
        self._start_most = 0
        self._epoch = 0
        self._producers = {1: ModelProducer(), 2: ModelProducer()}
        self._open()
        if power_loss_at is not None:
            self._disk.inject(Fault.at_mutation(power_loss_at))

    @property
    def mutations(self) -> int:
        """How many changes of the disk there were so far."""
        return self._disk.mutations

    def run(self, steps: int = 30) -> None:
        """Run steps; raise `AssertionError` with the trace when an expectation does not hold."""
        choices = self._choices()
        try:
            for _ in range(steps):
                (step,) = self._rng.choices(
                    [choice for choice, _ in choices], [weight for _, weight in choices]
                )
                self._take(step)
            self._do_crash()
        except AssertionError as error:
            raise AssertionError(f"seed {self.seed}: {error}\n" + "\n".join(self.trace)) from error

    def _choices(self) -> list[tuple[Callable[[], None], int]]:
        """Return the steps, and how often each is taken."""
        return [
            (self._do_append, 12),
            (self._do_append_idempotent, 6),
            (self._do_append_transactional, 5),
            (self._do_end_transaction, 4),
            (self._do_sync, 3),
            (self._do_flush, 3),
            (self._do_checkpoint, 2),
            (self._do_roll, 2),
            (self._do_truncate, 2),
            (self._do_delete_records, 1),
            (self._do_retention, 1),
            (self._do_new_leader, 1),
            (self._do_reopen, 1),
            (self._do_crash, 3),
        ]

    def _take(self, step: object) -> None:
        assert callable(step)
        name = getattr(step, "__name__", "?")
        self.trace.append(f"{name} {self._log!r}")
        self._armed = self._faults and self._rng.random() < 0.15
        if self._armed:
            self._inject()
        try:
            step()
        except DiskFull:
            self.trace.append("  disk full")
            self._doubtful.clear()
        except (StorageError, PowerLoss) as error:
            self.trace.append(f"  {type(error).__name__} {error}")
            self._do_crash()
        if self._armed:
            self._disk.faults.clear()

    def _inject(self) -> None:
        ahead = self._rng.randrange(1, 12)
        kind = self._rng.randrange(4)
        self.trace.append(f"  fault kind {kind} in {ahead} calls")
        if kind == 0:
            self._disk.inject(Fault.at_mutation(self._disk.mutations + ahead))
        elif kind == 1:
            self._disk.inject(Fault.at_call(self._disk.calls + ahead))
        elif kind == 2:
            self._disk.inject(Fault(errno.EIO, _writes_log, written_bytes=self._rng.randrange(200)))
        else:
            short = self._rng.randrange(200)
            self._disk.inject(Fault(errno.ENOSPC, _writes_log, written_bytes=short))

    # -- steps ---------------------------------------------------------------------------------

    def _do_append(self) -> None:
        values = [self._rng.randbytes(self._rng.randrange(120)) for _ in range(self._dice(3))]
        self._append(sample_batch(*values, timestamp_ms=self._now_ms()))

    def _do_append_idempotent(self) -> None:
        self._append_from(self._dice(2), transactional=False)

    def _do_append_transactional(self) -> None:
        self._append_from(self._dice(2), transactional=True)

    def _append_from(self, producer_id: int, *, transactional: bool) -> None:
        producer = self._producers[producer_id]
        transactional = transactional or producer.in_transaction
        values = [b"p" * self._rng.randrange(60) for _ in range(self._dice(3))]
        batch = sample_batch(
            *values,
            timestamp_ms=self._now_ms(),
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            sequence=producer.sequence,
            transactional=transactional,
        )
        self._append(batch)
        producer.sequence += len(values)
        producer.in_transaction = transactional
        again = self._log.append(batch, self._epoch)
        assert again.duplicate, "a batch sent again is known"

    def _do_end_transaction(self) -> None:
        producer_id = self._dice(2)
        producer = self._producers[producer_id]
        commit = self._rng.random() < 0.5
        end = self._log.log_end_offset
        self._doubtful = [b""]
        self._log.append_marker(
            producer_id, producer.epoch, self._epoch, commit=commit, coordinator_epoch=0
        )
        self._doubtful.clear()
        self._disarm()
        self._took(self._log.read(end, _BUDGET, max_offset=end + 1).read())
        producer.in_transaction = False

    def _append(self, batch: bytes) -> None:
        end = int(self._log.log_end_offset)
        self._doubtful = [batch]
        appended = self._log.append(batch, self._epoch)
        self._doubtful.clear()
        self._disarm()
        assert appended.base_offset == end, "an append begins at the log end"
        stored = self._log.read(end, _BUDGET, max_offset=self._log.log_end_offset).read()
        assert stored[16:] == batch[16:], "only the head may change"
        self._took(stored)

    def _disarm(self) -> None:
        """Let no fault happen: the step is done, what follows only looks."""
        if self._armed:
            self._disk.faults.clear()

    def _took(self, stored: bytes) -> None:
        self._batches.append(stored)
        self._log.set_high_watermark(self._log.log_end_offset)

    def _do_sync(self) -> None:
        end = int(self._log.log_end_offset)
        assert self._log.sync() == end
        self._synced = end

    def _do_flush(self) -> None:
        end = int(self._log.log_end_offset)
        assert self._log.flush() == end
        self._synced = end

    def _do_checkpoint(self) -> None:
        self._directory.checkpoint()

    def _do_roll(self) -> None:
        self._log.roll()

    def _do_truncate(self) -> None:
        low = max(self._start_most, self._log.log_end_offset - 12)
        offset = self._rng.randint(low, self._log.log_end_offset)
        kept = [data for data in self._batches if Batch(data).next_offset <= offset]
        end = Batch(kept[-1]).next_offset if kept else 0
        self._synced = min(self._synced, end)
        if end < self._start_most:
            return
        self._log.truncate_to(offset)
        self._batches = kept
        assert self._log.log_end_offset == end, "a batch goes whole"
        self._log.set_high_watermark(end)
        self._reload_model_producers()

    def _do_delete_records(self) -> None:
        before = self._rng.randint(self._log.log_start_offset, self._log.high_watermark)
        self._start_most = max(self._start_most, before)
        self._log.delete_records(before)
        self._start_least = max(self._start_least, before)

    def _do_retention(self) -> None:
        self._clock.advance(self._rng.randrange(40_000))
        self._start_most = self._log.log_end_offset
        self._log.apply_retention()
        self._start_least = self._start_most = self._log.log_start_offset
        self._log.remove_deleted()

    def _do_new_leader(self) -> None:
        self._epoch += self._dice(2)

    def _do_reopen(self) -> None:
        self._close()
        self._synced = self._log.log_end_offset
        self._open()
        assert not self._directory.recovered, "a clean stop leaves nothing to recover"
        self._check()

    def _do_crash(self) -> None:
        self._armed = False
        self._disk.crash(self._rng)
        self.trace.append("  crash")
        while self._faults and self._rng.random() < 0.2:
            # Recovery itself can be cut short, at any point.
            ahead = self._rng.randrange(1, 20)
            self._disk.inject(Fault.at_mutation(self._disk.mutations + ahead))
            try:
                self._open()
            except PowerLoss:
                self.trace.append(f"  crash in recovery, at change {ahead}")
            self._disk.crash(self._rng)
        self._open()
        self._check()

    # -- what must hold ------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._directory = self._open_directory()
            self._log: PartitionLog = self._directory.create(PARTITION)
        except StorageError as error:
            if self._armed:
                raise
            raise AssertionError(f"a crash alone cannot damage the log: {error}") from error
        self._log.set_high_watermark(self._log.log_end_offset)

    def _open_directory(self) -> LogDirectory:
        """Open what there is, and return the directory that serves the log."""
        return self._open_path(_PATH)

    def _open_path(self, path: Path) -> LogDirectory:
        return LogDirectory.open(
            path,
            filesystem=self._disk,
            clock=self._clock,
            configs=lambda topic: self._config,
            recovery_threads=1,
            background=False,
        )

    def _close(self) -> None:
        self._directory.close()

    def _check(self) -> None:
        self._disarm()
        stored = self._check_content()
        self._batches = [data for data in self._batches if Batch(data).base_offset < stored.end]
        self._batches += stored.unknown
        self._doubtful.clear()
        self._synced = stored.end
        self._log.assert_order()
        self._check_start()
        self._check_lookups()
        self._check_producers()
        self._check_epochs()
        self._reload_model_producers()

    def _check_content(self) -> "Stored":
        """Check that synced records are there, unchanged, without a gap, and no others."""
        log = self._log
        end = log.log_end_offset
        assert end >= self._synced, f"synced up to {self._synced}, found up to {end}"
        known = {Batch(data).base_offset: data for data in self._batches}
        offset = int(log.log_start_offset)
        unknown: list[bytes] = []
        while offset < end:
            piece = log.read(offset, _BUDGET, max_offset=end)
            assert piece.size, f"nothing at {offset}, though the log ends at {end}"
            for batch in iter_batches(piece.read()):
                batch.validate()
                assert batch.base_offset <= offset <= batch.last_offset, f"a gap at {offset}"
                data = bytes(batch.data)
                if batch.base_offset in known:
                    assert known[batch.base_offset] == data, f"the batch at {offset} changed"
                else:
                    assert self._is_doubtful(batch), f"the batch at {offset} was never appended"
                    unknown.append(data)
                offset = batch.next_offset
        return Stored(end, unknown)

    def _is_doubtful(self, batch: Batch) -> bool:
        """Return whether a failed append may have left these bytes; a marker's are unknown."""
        data = bytes(batch.data)[16:]
        return any(data == each[16:] or not each for each in self._doubtful)

    def _check_start(self) -> None:
        start = self._log.log_start_offset
        assert start >= self._start_least, f"deleted up to {self._start_least}, starts at {start}"
        assert start <= max(self._start_most, self._start_least), f"starts at {start}, too late"
        self._start_least = self._start_most = start

    def _live(self) -> list[Batch]:
        start = self._log.log_start_offset
        return [batch for batch in map(Batch, self._batches) if batch.last_offset >= start]

    def _check_lookups(self) -> None:
        """Check that indexes agree with a walk over everything."""
        log = self._log
        live = self._live()
        for batch in live:
            asked = self._rng.randint(
                max(batch.base_offset, log.log_start_offset), batch.last_offset
            )
            found = log.read(asked, 1)
            assert found.first_offset == batch.base_offset and found.size == batch.size_bytes
        times = sorted({batch.max_timestamp for batch in live})
        for time_ms in self._rng.sample(times, min(3, len(times))):
            expected = next(batch for batch in live if batch.max_timestamp >= time_ms)
            answer = log.offset_for_timestamp(time_ms)
            first = max(expected.base_offset, log.log_start_offset)
            assert first <= answer.offset <= expected.last_offset, f"time {time_ms}: {answer}"
        newest = log.offset_of_max_timestamp()
        assert newest.timestamp_ms == (times[-1] if times else -1), "the newest time is known"

    def _check_producers(self) -> None:
        """Check that producers and transactions are as after a replay from offset 0."""
        state, aborted = replay(self._batches)
        found = {entry.producer_id: entry for entry in self._log.producer_entries()}
        expected = {entry.producer_id: entry for entry in state.entries()}
        assert found.keys() == expected.keys(), f"producers {found} instead of {expected}"
        for producer_id, entry in expected.items():
            other = found[producer_id]
            for field in ("epoch", "last_sequence", "last_offset", "transaction_first_offset"):
                ours, theirs = getattr(other, field), getattr(entry, field)
                assert ours == theirs, f"producer {producer_id}: {field} {ours}, not {theirs}"
        self._log.set_high_watermark(self._log.log_end_offset)
        undecided = state.first_undecided_offset()
        stable = int(self._log.log_end_offset if undecided is None else undecided)
        stable = max(stable, self._log.log_start_offset)
        assert self._log.last_stable_offset == stable, "the last stable offset"
        start = self._log.log_start_offset
        listed = [
            (each.producer_id, each.first_offset, each.last_offset)
            for each in self._log.aborted_transactions(start, self._log.log_end_offset)
            if each.last_offset >= start
        ]
        expected_aborted = sorted(
            (each for each in aborted if each[2] >= start), key=lambda each: each[1]
        )
        assert listed == expected_aborted, f"aborted {listed} instead of {expected_aborted}"

    def _check_epochs(self) -> None:
        """Check that the epoch of a live batch is the one in its head."""
        for batch in self._live():
            offset = max(batch.base_offset, self._log.log_start_offset)
            found = self._log.epochs.epoch_at(offset)
            assert found == batch.leader_epoch, f"epoch {found} at {offset}"

    def _reload_model_producers(self) -> None:
        state, _ = replay(self._batches)
        for producer_id, producer in self._producers.items():
            entry = state.get(producer_id)
            producer.sequence = 0 if entry is None else entry.next_sequence
            producer.in_transaction = entry is not None and entry.in_transaction

    def _dice(self, sides: int) -> int:
        return self._rng.randint(1, sides)

    def _now_ms(self) -> int:
        """Let time run on; sometimes a producer's clock is behind."""
        self._clock.advance(self._rng.randrange(2000))
        late = self._rng.randrange(5000) if self._rng.random() < 0.3 else 0
        return self._clock.wall_ms() - late


@dataclass(frozen=True, slots=True)
class Stored:
    """What a reopened log holds: where it ends, and batches whose append had failed."""

    end: int
    unknown: list[bytes]


def replay(batches: list[bytes]) -> tuple[ProducerState, list[tuple[int, int, int]]]:
    """Return the producers after these batches, and aborted transactions as (id, first, last)."""
    state = ProducerState()
    aborted: list[tuple[int, int, int]] = []
    for batch in map(Batch, batches):
        if batch.producer_id < 0:
            continue
        if not batch.is_control:
            state.append(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp,
                transactional=batch.is_transactional,
            )
            continue
        marker = read_control(batch)
        assert marker is not None
        done = state.end_transaction(
            batch.producer_id,
            batch.producer_epoch,
            marker.coordinator_epoch,
            batch.base_offset,
            batch.max_timestamp,
            aborted=marker.type is ControlType.ABORT,
        )
        if done is not None and done.aborted:
            aborted.append((done.producer_id, done.first_offset, done.last_offset))
    return state, aborted


def _writes_log(call: Call) -> bool:
    return call.name == "pwritev" and call.path.suffix == ".log"
