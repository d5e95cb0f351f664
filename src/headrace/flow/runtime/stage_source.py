"""A data source that runs a plan's first stage in the Spark process that reads the records.

Between a source in Python and an operator in Python, Spark makes a row of every record, twice. Here
the stage runs inside the source, and Spark sees only chunks or partial totals.
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
    """A pickled stage that is unpickled in the process that reads records.

    Spark starts several processes that only plan. They unpickle the source but not this, so that
    they need not import what a plan's bolts do.
    """

    pickled: bytes

    @classmethod
    def of(cls, stage: StageFunction) -> "SealedStage":
        return cls(cloudpickle.dumps(stage))  # type: ignore[no-untyped-call]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage: StageFunction = cloudpickle.loads(self.pickled)
        return stage(batches)


class StageSource(DataSource):
    """Base of the classes that `stage_source` makes, one per spout.

    Attributes:
        stage: the sealed stage that reads the records.
        columns: the source's columns, which the stage is called with.
        output_ddl: the stage's columns, as Spark's DDL.
    """

    label: ClassVar[str]
    stage: ClassVar[StageFunction]
    columns: ClassVar[StructType]
    output_ddl: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return cls.label

    def schema(self) -> str:
        return self.output_ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        return _StageBatch(SourceOptions.of(self.options), self.columns, type(self).stage)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _StageStream(SourceOptions.of(self.options), self.columns, type(self).stage)


def stage_source(
    label: str, stage: StageFunction, *, columns: StructType, output_ddl: str
) -> type[StageSource]:
    """Return the data source that reads records and runs a stage; register it under its label."""
    # Made here, not in a module: cloudpickle would send only the name of a module's class.
    members: dict[str, Any] = {
        "label": label,
        "stage": staticmethod(SealedStage.of(stage)),
        "columns": columns,
        "output_ddl": output_ddl,
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
