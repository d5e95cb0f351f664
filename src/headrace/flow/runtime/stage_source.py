"""A topic's records and the stage that takes them, in one process of Spark's.

Between a source in Python and an operator in Python, Spark makes a row of every record, twice. Here
the stage runs inside the source: what reaches Spark are chunks, or partial totals.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from headrace.spark.source.batch import BatchSource
from headrace.spark.source.option import SourceOptions
from headrace.spark.source.stream import StreamSource

StageFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class SealedStage:
    """A stage on its way to where records are read.

    Spark starts several processes that only plan. They take the source along and never open this,
    so that they need not import what a plan's bolts do.
    """

    pickled: bytes

    @classmethod
    def of(cls, stage: StageFunction) -> "SealedStage":
        return cls(cloudpickle.dumps(stage))  # type: ignore[no-untyped-call]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage: StageFunction = cloudpickle.loads(self.pickled)
        return stage(batches)


class StageSource(DataSource):
    """`stage_source` makes a class of this for each spout: Spark pickles it with what it holds.

    Attributes:
        stage: what the records go through, sealed.
        columns: of the source, which the stage gets.
        made: the stage's columns, in Spark's words.
    """

    label: ClassVar[str]
    stage: ClassVar[StageFunction]
    columns: ClassVar[StructType]
    made: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.label

    def schema(self) -> str:
        return self.made

    def reader(self, schema: StructType) -> DataSourceReader:
        return _StageBatch(SourceOptions.of(self.options), self.columns, type(self).stage)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _StageStream(SourceOptions.of(self.options), self.columns, type(self).stage)


def stage_source(
    label: str, stage: StageFunction, *, columns: StructType, made: str
) -> type[StageSource]:
    """The data source, to be registered under its label, that reads records and runs a stage."""
    # Not a class of a module: cloudpickle would send no more than its name.
    members: dict[str, Any] = {
        "label": label,
        "stage": staticmethod(SealedStage.of(stage)),
        "columns": columns,
        "made": made,
    }
    return type("StageSourceOfSpout", (StageSource,), members)


class _StageBatch(BatchSource):
    def __init__(self, options: SourceOptions, columns: StructType, stage: StageFunction) -> None:
        super().__init__(options, columns)
        self._stage = stage

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return self._stage(super().read(partition))


class _StageStream(StreamSource):
    def __init__(self, options: SourceOptions, columns: StructType, stage: StageFunction) -> None:
        super().__init__(options, columns)
        self._stage = stage

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return self._stage(super().read(partition))
