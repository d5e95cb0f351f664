"""Topics as Spark tables and streams: the data source `headrace`; and Kinesis streams: `kinesis`.

    >>> from headrace.spark import session

`docs/spark.md` shows how to use the first, `docs/kinesis.md` the second. Importing the package is
cheap, because executors import it too: each name is loaded from its own file on first use. The
import also lets Spark start the Python of this process where it would start any `python3`, so that
a program works in a virtual environment that was not activated (`headrace.spark.python_path`).

Running:
    session: starts a Spark session in which `format("headrace")` and `format("kinesis")` work.
    each_batch: a function for `foreachBatch` that writes each micro-batch exactly once.
    HeadraceDataSource: the data source, for `spark.dataSource.register`; Spark finds it too.
    KinesisDataSource: the data source `kinesis`, likewise.
    connector_folder: where jars of Spark's own Kafka connector go, for real-time mode.

Columns of values that name a schema in a registry:
    from_avro, from_protobuf, from_json_schema: decode them, each by its own schema.
    to_avro, to_protobuf, to_json_schema: encode them.

Errors:
    SparkUnavailable, JavaMissing: Spark did not start, or there is no Java that it can use.
    TopicMissing: a topic or partition to read does not exist.
    DataLoss: records are gone that were not read.
    BadValue: a value that cannot be decoded, with valueMode FAILFAST.
    SinkFenced: another driver commits batches of the same sink.
    BatchOutdated, BatchChanged: a checkpoint was set back, so that a batch cannot be written once.
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names
from headrace.spark.python_path import prefer_this_python

__all__ = [
    "BadValue",
    "BatchChanged",
    "BatchOutdated",
    "DataLoss",
    "HeadraceDataSource",
    "JavaMissing",
    "KinesisDataSource",
    "SinkFenced",
    "SparkUnavailable",
    "TopicMissing",
    "connector_folder",
    "each_batch",
    "from_avro",
    "from_json_schema",
    "from_protobuf",
    "session",
    "to_avro",
    "to_json_schema",
    "to_protobuf",
]

if TYPE_CHECKING:
    from headrace.process.java import JavaMissing
    from headrace.spark.connector import connector_folder
    from headrace.spark.data_source import HeadraceDataSource
    from headrace.spark.function import (
        from_avro,
        from_json_schema,
        from_protobuf,
        to_avro,
        to_json_schema,
        to_protobuf,
    )
    from headrace.spark.kinesis.data_source import KinesisDataSource
    from headrace.spark.ready_session import SparkUnavailable, session
    from headrace.spark.sink.commit import BatchChanged, BatchOutdated, SinkFenced
    from headrace.spark.sink.each_batch import each_batch
    from headrace.spark.source.data_loss import DataLoss
    from headrace.spark.source.topic_choice import TopicMissing
    from headrace.spark.value.error import BadValue
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "BadValue": "headrace.spark.value.error",
            "BatchChanged": "headrace.spark.sink.commit",
            "BatchOutdated": "headrace.spark.sink.commit",
            "DataLoss": "headrace.spark.source.data_loss",
            "HeadraceDataSource": "headrace.spark.data_source",
            "JavaMissing": "headrace.process.java",
            "KinesisDataSource": "headrace.spark.kinesis.data_source",
            "SinkFenced": "headrace.spark.sink.commit",
            "SparkUnavailable": "headrace.spark.ready_session",
            "TopicMissing": "headrace.spark.source.topic_choice",
            "connector_folder": "headrace.spark.connector",
            "each_batch": "headrace.spark.sink.each_batch",
            "from_avro": "headrace.spark.function",
            "from_json_schema": "headrace.spark.function",
            "from_protobuf": "headrace.spark.function",
            "session": "headrace.spark.ready_session",
            "to_avro": "headrace.spark.function",
            "to_json_schema": "headrace.spark.function",
            "to_protobuf": "headrace.spark.function",
        },
    )

prefer_this_python()
