"""A batch read: `spark.read.format("headrace")`."""

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from headrace.model.error import ConfigError
from headrace.spark.source.filter import SourceFilter
from headrace.spark.source.offset_finder import OffsetFinder
from headrace.spark.source.offset_limit import EARLIEST, LATEST, EachPartition, EveryPartition
from headrace.spark.source.offset_range import OffsetRange, split_ranges
from headrace.spark.source.option import SourceOptions
from headrace.spark.source.task import RangePartition, SourceTask
from headrace.spark.worker_socket import AcknowledgingInput


class BatchSource(AcknowledgingInput, DataSourceReader):
    """Plans on the driver (`pushFilters`, `partitions`) and reads in tasks (`read`)."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        options.check_batch()
        options = options.pinned(schema)
        self._options = options
        self._schema = schema
        SourceTask(options, schema).check()
        self._filter = SourceFilter()
        self._reading = f"read-{uuid.uuid4().hex}"
        self.pushFilters: Any = _Pushdown(self._filter)

    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read. Records that are written later are not part of this read."""
        finder = OffsetFinder(self._options)
        try:
            ranges = self._ranges(finder)
        finally:
            finder.close()
        found = split_ranges(ranges, self._options.min_partitions, self._options.max_records)
        return [RangePartition(each, begins=each.start > 0) for each in found] or [_NOTHING]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):
            return iter(())
        task = SourceTask(self._options, self._schema, self._filter.times, self._reading)
        return task.read(partition.range, begins=partition.begins)

    def _ranges(self, finder: OffsetFinder) -> list[OffsetRange]:
        options = self._options
        there = finder.partitions()
        starting = options.starting or EveryPartition(EARLIEST)
        starts = finder.starts(starting, there)
        ends = finder.ends(options.ending or EveryPartition(LATEST), there)
        if isinstance(starting, EachPartition):
            for each, start in starts.items():
                if start > ends[each]:
                    raise ConfigError(
                        f"startingOffsets has {start} for {each}, which ends at {ends[each]}"
                    )
        kept = [each for each in there if self._filter.keeps(each.topic, each.partition)]
        not_before_ms = self._filter.not_before_ms
        if not_before_ms is not None:
            young = finder.not_older(kept, max(not_before_ms, 0))
            kept = [each for each in kept if each in young]
            starts = {each: max(starts[each], young[each]) for each in kept}
        return [self._filter.narrow(OffsetRange(each, starts[each], ends[each])) for each in kept]


class _Pushdown:
    """`pushFilters` in a form that works with and without spark.sql.python.filterPushdown.enabled.

    Spark refuses every read of a source that has this method while the setting is off, which is the
    default: a source that works after a plain pip install cannot have it. Spark recognizes the
    method by comparing `__func__` with the base class's, and calls the attribute when the setting
    is on. So this is a callable object whose `__func__` is the base class's method.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, accepted: SourceFilter) -> None:
        self._accepted = accepted

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return [each for each in filters if not self._accepted.accept(each)]


# Spark requires at least one partition, also for topics without records.
_NOTHING: Final = InputPartition(None)
