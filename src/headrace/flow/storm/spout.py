"""Spouts: they read the tuples of a topology."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.plan import DEFAULT_STREAM
from headrace.flow.runtime.spout_offset import MessageId
from headrace.flow.runtime.tuple_batch import ORIGIN, TupleBatch, no_origin
from headrace.spark.worker_socket import AcknowledgingFunction

RECORD_COLUMNS = Fields.parse(
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"
)

_PLACE = "topic STRING, partition INT, offset BIGINT"
_GROUP_OPTIONS = ("kafka.group.id", "groupIdPrefix")


class Spout:
    """Base class of spouts. Implement `frame`, for the driver, and `decode`, for the workers.

    Attributes:
        fields: the fields of the tuples that `decode` yields.
        replayable: whether it gives the same tuples again for a batch that is repeated.
    """

    fields: Fields
    replayable: bool = True

    def frame(self, spark: Any, *, streaming: bool) -> Any:
        """Return the DataFrame that tuples are made of."""
        raise NotImplementedError

    def as_work(self) -> "Spout":
        """Return what the plan has as this component's work."""
        return self

    def bound(
        self,
        plan: str,
        component: str,
        *,
        parallelism: int,
        settings: Mapping[str, str],
        failed: tuple[MessageId, ...],
    ) -> "Spout":
        """Return this spout, as a component of a plan.

        Override it if the spout needs its name, its settings or the ids that failed.

        Args:
            failed: the ids of the tuples in a batch that an earlier process did not finish.
        """
        return self

    def staged(
        self, spark: Any, stage: Any, output_ddl: str, *, label: str, streaming: bool
    ) -> Any:
        """Return the DataFrame of a stage that reads those rows.

        Override it if the stage can run in the process that reads them.

        Args:
            stage: a function of Arrow batches that pickles.
            output_ddl: the columns of the stage, as Spark's DDL.
            label: a name that no other spout of the session has.
        """
        return self.frame(spark, streaming=streaming).mapInArrow(
            AcknowledgingFunction(stage).__call__, output_ddl
        )

    def in_group(self, group: str) -> "Spout":
        """Return this spout, committing its progress to a group unless it has a group already.

        Override it if the spout has progress to commit.
        """
        return self

    def decode(self, batch: pa.RecordBatch) -> Iterator[tuple[str, TupleBatch]]:
        """Yield the tuples of those rows, by stream."""
        raise NotImplementedError


class TopicSpout(Spout):
    """Reads records of topics.

    The fields are columns of the record or, with `format`, of its value.

    Args:
        fields: names among key, value, topic, partition, offset and timestamp, with types that
            the column casts to (a value as STRING is its text); with `format`, those of the value.
        format: json, csv or avro: how to decode values; a value that cannot be decoded gives a
            tuple of nulls.
        starting: earliest, latest, or offsets as the source's `startingOffsets` takes them.
        ending: where a batch query ends: latest, or offsets.
        options: more options of the source, such as maxOffsetsPerTrigger or kafka.*; for avro
            `valueSchema`, the schema of the writer.

    Example:
        TopicSpout("lines", brokers="127.0.0.1:9092", fields="value STRING")
        TopicSpout("views", brokers="127.0.0.1:9092", fields="page STRING, ms INT", format="json")
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        brokers: str,
        fields: str | Sequence[str] | Fields = "key BINARY, value STRING",
        format: str | None = None,
        starting: str = "earliest",
        ending: str = "latest",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.topics = (topics,) if isinstance(topics, str) else tuple(topics)
        self.brokers = brokers
        self.fields = Fields.parse(fields)
        self.format = format
        self.starting = starting
        self.ending = ending
        self.options = dict(options or {})
        if format is None:
            RECORD_COLUMNS.check_known(self.fields.names, f"the spout on {', '.join(self.topics)}")
        elif format not in ("json", "csv", "avro"):
            raise FlowError(f"a spout's format cannot be {format!r}: write json, csv or avro")
        elif format == "avro" and "valueSchema" not in self.options:
            raise FlowError(
                "a spout's format avro needs the schema that its values were written with:"
                " options={'valueSchema': '{...}'}"
            )

    def in_group(self, group: str) -> "TopicSpout":
        if any(each in self.options for each in _GROUP_OPTIONS):
            return self
        named = copy.copy(self)
        named.options = {**self.options, "kafka.group.id": group}
        return named

    def frame(self, spark: Any, *, streaming: bool) -> Any:
        reader = (spark.readStream if streaming else spark.read).format("headrace")
        # Spark does not pass the columns that are used to a Python source; a schema does.
        return reader.schema(self._columns()).options(**self._settings(streaming=streaming)).load()

    def staged(
        self, spark: Any, stage: Any, output_ddl: str, *, label: str, streaming: bool
    ) -> Any:
        from pyspark.sql.types import StructType

        from headrace.flow.runtime.stage_source import stage_source

        columns = StructType.fromDDL(self._columns())
        assert isinstance(columns, StructType)
        source = stage_source(label, stage, columns=columns, output_ddl=output_ddl)
        spark.dataSource.register(source)
        reader = (spark.readStream if streaming else spark.read).format(label)
        return reader.options(**self._settings(streaming=streaming)).load()

    def check_there(self) -> None:
        """Check that the topics exist.

        Raises:
            TopicMissing: a topic does not exist.
            ClientError: the brokers do not answer.
        """
        from headrace.spark.source.offset_finder import check_there

        check_there(self._settings(streaming=True))

    def _settings(self, *, streaming: bool) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.brokers,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting,
        }
        if not streaming:
            options["endingOffsets"] = self.ending
        if self.format is not None:
            options["valueFormat"] = self.format
            options["valueSchema"] = self.fields.ddl
        return options | self.options

    def _columns(self) -> str:
        """Return the columns of records that are read, as DDL."""
        if self.format is not None:
            from headrace.spark.source.option import SourceOptions

            options = SourceOptions.of(self._settings(streaming=True))
            return f"value {options.value_format.ddl()}, {_PLACE}"
        place = ("topic", "partition", "offset")
        read = [name for name in self.fields.names if name not in place]
        return ", ".join([*(f"{name} {RECORD_COLUMNS.ddl_of(name)}" for name in read), _PLACE])

    def kafka_frame(self, spark: Any, login: Mapping[str, str] | None = None) -> Any:
        """Return the fields as a stream of Spark's own connector, for its real-time mode.

        Args:
            login: the plan's options for clients, in Java's spelling.
        """
        options = {
            # The connector's own default also reads what was aborted.
            "kafka.isolation.level": "read_committed",
            **(login or {}),
            **self.options,
            "kafka.bootstrap.servers": self.brokers,
            "subscribe": ",".join(self.topics),
            "startingOffsets": self.starting,
        }
        rows = spark.readStream.format("kafka").options(**options).load()
        if self.format is not None:
            read = f"from_{self.format}(CAST(value AS STRING), '{self.fields.ddl}')"
            return rows.selectExpr(f"{read} AS read").select("read.*")
        return rows.selectExpr(
            *(f"CAST({name} AS {self.fields.ddl_of(name)}) AS {name}" for name in self.fields.names)
        )

    def decode(self, batch: pa.RecordBatch) -> Iterator[tuple[str, TupleBatch]]:
        origin = pa.RecordBatch.from_arrays(
            [
                batch.column("topic").cast(pa.string()).dictionary_encode().cast(ORIGIN[0].type),
                batch.column("partition").cast(pa.int32()),
                batch.column("offset").cast(pa.int64()),
            ],
            schema=ORIGIN,
        )
        if self.format is not None:
            value = batch.column("value")
            batch = pa.RecordBatch.from_arrays(value.flatten(), schema=pa.schema(list(value.type)))
        yield DEFAULT_STREAM, TupleBatch(_select(batch, self.fields), origin)


class SparkSpout(Spout):
    """Reads any DataFrame. Its rows have no origin in a topic.

    Args:
        make: a function of the session and `streaming` that returns the DataFrame.

    Example:
        SparkSpout(lambda spark, streaming: spark.readStream.format("rate").load(),
                   fields="timestamp TIMESTAMP, value BIGINT")
    """

    def __init__(
        self, make: Callable[[Any, bool], Any], *, fields: str | Sequence[str] | Fields
    ) -> None:
        self.make = make
        self.fields = Fields.parse(fields)

    def frame(self, spark: Any, *, streaming: bool) -> Any:
        return self.make(spark, streaming).select(*self.fields.names)

    def decode(self, batch: pa.RecordBatch) -> Iterator[tuple[str, TupleBatch]]:
        columns = _select(batch, self.fields)
        yield DEFAULT_STREAM, TupleBatch(columns, no_origin(batch.num_rows))


def _select(batch: pa.RecordBatch, fields: Fields) -> pa.RecordBatch:
    arrays = [
        column if column.type == field.type else column.cast(field.type)
        for field in fields.schema
        for column in (batch.column(field.name),)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=fields.schema)
