"""A streaming read: `spark.readStream.format("headrace")`.

The driver has one Python process with one `StreamSource` while the query runs, and asks it for
offsets; tasks read the ranges. Crash: Spark's checkpoint has the offsets, so this process can die
at any point. The next one is asked about the same batch again and returns the same ranges.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headrace.model.ids import TopicPartition
from headrace.spark.source.available_now import AvailableNowTarget
from headrace.spark.source.cluster_topic_ids import ClusterTopicIds
from headrace.spark.source.data_loss import created_again, losses_between, report_loss
from headrace.spark.source.offset_admission import MinimumDelay, capped_end, waiting_offsets
from headrace.spark.source.offset_finder import OffsetFinder
from headrace.spark.source.offset_json import Offsets, dump_offsets, load_offsets
from headrace.spark.source.offset_limit import LATEST, EveryPartition, depends_on_now
from headrace.spark.source.offset_range import OffsetRange, split_ranges
from headrace.spark.source.option import SourceOptions
from headrace.spark.source.progress import Progress
from headrace.spark.source.task import RangePartition, SourceTask
from headrace.spark.worker_socket import AcknowledgingInput

Shape = dict[str, dict[str, int]]

_LOG = logging.getLogger("headrace.spark")


class StreamSource(AcknowledgingInput, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans offsets on the driver and reads records in tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        options.check_stream()
        options = options.pinned(schema)
        self._options = options
        self._task = SourceTask(options, schema)
        self._task.check()
        self._finder = OffsetFinder(options)
        self._progress = None if options.group is None else Progress(options.group, options.client)
        self._delay = (
            None
            if options.min_offsets is None
            else MinimumDelay(options.min_offsets, options.max_delay_ms)
        )
        self._unpinned: Offsets | None = None
        self._available_now = False
        self._target: AvailableNowTarget | None = None
        self._latest: Offsets = {}
        # Of the micro-batch that was planned last: log starts that have passed where it begins.
        self._log_starts: Offsets = {}
        # The ids of topics that were created again before the start, by the ids they had.
        self._accepted: dict[UUID, UUID] | None = None if options.accept_new_topic_ids else {}
        # A query that continues may not have been audited before.
        self._begins = True

    def initialOffset(self) -> Shape:  # noqa: N802, Spark's name
        """Return where a query begins that has no checkpoint, or died in its first micro-batch.

        Spark stores where a micro-batch ends, but not where the first one begins. If that is the
        end of the log, it would lie further on after a crash, and the records in between would be
        lost. So the first micro-batch of such a query is empty: it ends where it begins, and Spark
        stores that offset. Spark runs this micro-batch in any case, as with its own connector.
        """
        limit = self._options.starting or EveryPartition(LATEST)
        found = self._finder.starts(limit, self._finder.partitions())
        if depends_on_now(limit, latest_if_none_match=self._options.latest_if_none_match):
            self._unpinned = found
        return _shape(found, self._finder.topic_ids)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, Spark's name
        """Return one limit, as Spark's Python API has it; `latestOffset` adds the minimum."""
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, Spark's name
        self._available_now = True

    def latestOffset(self, start: Shape, limit: ReadLimit) -> Shape:  # noqa: N802, Spark's name
        """Return where the next micro-batch ends.

        Spark calls this when the micro-batch that ended at `start` is done and its commit is on
        disk, also when there are no new records: the moment to commit progress. Spark calls
        `commit` only once there is a next micro-batch, which would leave an idle stream one behind.

        Raises:
            DataLoss: a topic was created again, or a partition is gone or ends before `start`, and
                failOnDataLoss is true. Spark stores the end that this returns, and returns to it
                after every restart: it must not be one that is wrong for a moment only.
        """
        begin, known = load_offsets(start), self._known_ids(start)
        if self._progress is not None:
            self._progress.reached(begin)
        pins, self._unpinned = begin == self._unpinned, None
        if pins:
            return start
        latest, ids = self._ends(begin)
        self._latest = latest
        self._log_starts = {}
        replaced = self._finder.replaced_topics(known)
        if self._options.fail_on_data_loss:
            self._check_no_loss(begin, latest, replaced)
        # Partitions that a micro-batch leaves out are new to the next one, which reads all of them.
        there = {each: end for each, end in latest.items() if each.topic not in replaced}
        end = _shape(self._admitted(begin, there, limit), known.completed_by(ids))
        return start if end == start else end

    def reportLatestOffset(self) -> Shape | None:  # noqa: N802, Spark's name
        return dump_offsets(self._latest) or None

    def partitions(self, start: Shape, end: Shape) -> list[InputPartition]:
        begin, until = load_offsets(start), load_offsets(end)
        # A first micro-batch that is run again was empty, wherever it would begin now.
        if begin in (until, self._unpinned):
            return []
        ranges = self._ranges(begin, until, self._finder.replaced_topics(self._known_ids(end)))
        found = split_ranges(ranges, self._options.min_partitions, self._options.max_records)
        begins, self._begins = self._begins and bool(found), self._begins and not found
        return [RangePartition(each, begins=begins and each.start > 0) for each in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return self._task.read(partition.range, begins=partition.begins)

    def commit(self, end: Shape) -> None:
        """Do nothing: Spark calls it late, when `latestOffset` has already committed progress."""

    def stop(self) -> None:
        """Disconnect; the query has ended."""
        self._finder.close()
        if self._progress is not None:
            self._progress.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave connections out: Spark pickles a reader for its tasks, which only call `read`."""
        return {**self.__dict__, "_finder": None, "_progress": None}

    def _known_ids(self, stored: Shape) -> ClusterTopicIds:
        """Return the ids among offsets of Spark's checkpoint.

        With acceptNewTopicIds these are the ids that the topics had at the start of the query: what
        is created again while it runs is no copy.
        """
        known = ClusterTopicIds.load(stored)
        if self._accepted is None:
            topics = sorted(self._finder.replaced_topics(known))
            now = self._finder.topic_ids
            self._accepted = {known.by_topic[each]: now.by_topic[each] for each in topics}
            if topics:
                _LOG.warning("topic_ids_accepted topics=%s", ",".join(topics))
        return known.exchanged(self._accepted)

    def _ends(self, begin: Mapping[TopicPartition, int]) -> tuple[Offsets, ClusterTopicIds]:
        """Return where the partitions end, and the ids that their topics had before."""
        if self._target is not None:
            self._target.refresh(self._finder, fail=self._options.fail_on_data_loss)
            return dict(self._target.ends), self._target.ids
        ends = self._finder.latest_after(begin)
        ids = self._finder.topic_ids
        if self._available_now:
            self._target = AvailableNowTarget(ends, ids)
        return ends, ids

    def _check_no_loss(self, begin: Offsets, latest: Offsets, replaced: Collection[str]) -> None:
        for topic in sorted(replaced):
            report_loss(created_again(topic), fail=True)
        for each in losses_between(begin, latest):
            report_loss(each, fail=True)

    def _admitted(self, begin: Offsets, latest: Offsets, limit: ReadLimit) -> Offsets:
        if isinstance(limit, ReadAllAvailable):
            return latest
        added = [each for each in latest if each not in begin]
        known = {**self._finder.earliest(added), **begin} if added else begin
        now_ms = time.monotonic() * 1000
        if (
            self._delay is not None
            and not self._available_now
            and self._delay.holds_back(waiting_offsets(known, latest), now_ms)
        ):
            return begin
        if isinstance(limit, ReadMaxRows):
            if waiting_offsets(known, latest) > limit.max_rows:
                known = self._past_deleted(known, latest)
            return capped_end(known, latest, limit.max_rows)
        return latest

    def _past_deleted(self, known: Offsets, latest: Offsets) -> Offsets:
        """Return where the records begin that remain, if a loss is not to fail the query.

        Otherwise deleted offsets would fill one micro-batch after another. Log starts are asked for
        only while more waits than one micro-batch takes.
        """
        if self._options.fail_on_data_loss:
            return known
        waiting = [each for each, end in latest.items() if known.get(each, end) < end]
        starts = self._finder.earliest(waiting)
        self._log_starts = {each: at for each, at in starts.items() if at > known[each]}
        return known | self._log_starts

    def _ranges(
        self, begin: Offsets, until: Offsets, replaced: Collection[str]
    ) -> list[OffsetRange]:
        fail = self._options.fail_on_data_loss
        for topic in sorted(replaced):
            report_loss(created_again(topic), fail=fail)
        added = [each for each in until if each not in begin]
        known = {**self._finder.earliest(added), **begin} if added else begin
        for each in added:
            if each not in known:
                report_loss(f"{each} was deleted before it could be read", fail=fail)
            elif known[each] > 0:
                report_loss(f"{each} is new and begins at {known[each]} instead of 0", fail=fail)
        for loss in losses_between(known, until):
            report_loss(loss, fail=fail)
        ranges = []
        for each, end in until.items():
            if each.topic in replaced:
                continue  # what the range had is gone; what is there now is another micro-batch's
            start = known.get(each, end)
            log_start = self._log_starts.get(each, start)
            if start < log_start <= end:
                report_loss(
                    f"{each} was read up to {start} and now begins at {log_start}", fail=fail
                )
                start = log_start
            ranges.append(OffsetRange(each, start, end))
        return ranges


def _shape(offsets: Offsets, ids: ClusterTopicIds) -> Shape:
    """Return what Spark stores."""
    return {**dump_offsets(offsets), **ids.dump({each.topic for each in offsets})}
