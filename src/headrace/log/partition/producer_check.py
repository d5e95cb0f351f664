"""Whether the batches of one append continue what their producers have in the log."""

from headrace.log.partition.log_state import LogState
from headrace.log.producer.producer_entry import Duplicate
from headrace.log.producer.producer_recall import recall_batches
from headrace.log.producer.producer_state import AppendOrigin
from headrace.log.segment.segment_list import floor
from headrace.model.error import OutOfOrderSequence, UnknownProducer
from headrace.records.batch import Batch, add_sequence


class ProducerCheck:
    """Asks `ProducerState` about each batch, and the log itself about what a snapshot left out.

    Threads: the one appender, while it holds the log's lock.
    """

    __slots__ = ("_log",)

    def __init__(self, log: LogState) -> None:
        self._log = log

    def check(
        self, batches: list[Batch], origin: AppendOrigin, strict_start: bool
    ) -> Duplicate | None:
        """Check that each batch follows what its producer has in the log or in this very append.

        Returns:
            None when the batches may be appended; where the first one lies if it is a duplicate.

        Raises:
            OutOfOrderSequence, UnknownProducer, InvalidProducerEpoch, InvalidTransactionState: it
                does not follow.
        """
        pending: dict[int, tuple[int, int]] = {}
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            before = pending.get(producer_id)
            if before is None:
                duplicate = self._check_batch(batch, origin, strict_start)
                if duplicate is not None:
                    return duplicate
            elif before != (batch.producer_epoch, batch.base_sequence):
                raise OutOfOrderSequence(
                    f"producer {producer_id} sends epoch {batch.producer_epoch} and sequence "
                    f"{batch.base_sequence} in one request after {before}"
                )
            pending[producer_id] = (batch.producer_epoch, add_sequence(batch.last_sequence, 1))
        return None

    def _check_batch(
        self, batch: Batch, origin: AppendOrigin, strict_start: bool
    ) -> Duplicate | None:
        def check() -> Duplicate | None:
            return self._log.producers.check(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_sequence,
                transactional=batch.is_transactional,
                origin=origin,
                strict_start=strict_start,
            )

        try:
            return check()
        except (OutOfOrderSequence, UnknownProducer):
            self._recall_batches(batch)
            return check()

    def _recall_batches(self, batch: Batch) -> None:
        """Read from the log what its producer sent before a restart, if a snapshot left it out."""
        log = self._log
        entry = log.producers.take_incomplete(batch.producer_id, batch.producer_epoch)
        if entry is None:
            return
        segments = log.segments.all
        segments = segments[: floor(segments, entry.batches[0].first_offset) + 1]
        with log.storage.io(f"look for batches of a producer in {log.partition}"):
            before = recall_batches(segments, entry)
        log.producers.recall(entry, before)
