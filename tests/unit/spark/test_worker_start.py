"""What a Python worker of Spark must not import before it reads."""

import subprocess
import sys

_READ = """
import sys
import pyarrow as pa
from headrace.client.read.reader import Reader
from headrace.model.ids import TopicPartition
from headrace.records.column import BINARY_SCHEMA
from headrace.spark.source.column import SourceColumns
from headrace.spark.source.task import SourceTask

names = ["value", "topic", "partition", "timestamp"]
types = [pa.binary(), pa.string(), pa.int32(), pa.timestamp("us", tz="UTC")]
columns = SourceColumns(pa.schema(list(zip(names, types))), TopicPartition("clicks", 0))
columns.rows(pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in BINARY_SCHEMA],
                                        schema=BINARY_SCHEMA))
print("pandas" in sys.modules)
"""


def test_a_worker_reads_without_pandas() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _READ], capture_output=True, text=True, check=True, timeout=120
    )

    assert done.stdout.strip() == "False"


_PLAN = """
import sys
from pyspark.sql.types import BinaryType, StructField, StructType
from headrace.spark.data_source import HeadraceDataSource

options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "clicks"}
source = HeadraceDataSource(options)
source.schema()
source.streamReader(StructType([StructField("value", BinaryType())]))
print([name for name in ("numba", "pandas", "pyarrow.compute", "structlog") if name in sys.modules])
"""


def test_a_stream_is_planned_without_what_only_its_tasks_need() -> None:
    """Spark starts a Python process for every stream, which imports all it needs."""
    done = subprocess.run(
        [sys.executable, "-c", _PLAN], capture_output=True, text=True, check=True, timeout=120
    )

    assert done.stdout.strip() == "[]"
