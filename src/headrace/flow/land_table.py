"""Landing a topic in a table with Spark: executors write files, and the driver commits them.

The driver learns a batch's offsets from Spark's checkpoint (`offsets/N`), which Spark writes before
the batch runs, and commits them with the files. A batch that Spark repeats after a crash is in the
table already, or adds what is missing; `headrace land` goes on where this landing has ended, and
the other way round.
"""

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.flow.error import FlowError
from headrace.flow.execution.auditing import SETTINGS, audit_options
from headrace.flow.execution.progress_group import group_of
from headrace.flow.plan.client_option import brokers_of, user_settings, without_java
from headrace.flow.storage.checkpoint_store import open_checkpoint
from headrace.flow.storage.file_store import FileStore
from headrace.flow.storage.location import Location, check_reachable
from headrace.landing.batch_lander import Batch, BatchLander, BatchOptions
from headrace.landing.batch_task import BatchTask, TaskFiles
from headrace.landing.column_ddl import declared_columns
from headrace.landing.error import LandingError
from headrace.landing.row.choice import check_keys, row_decoder
from headrace.landing.source import Source
from headrace.landing.time_partition import TimePartition
from headrace.model.table.table_name import TableKind, TableName
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.spark.source.offset_json import load_offsets
from headrace.spark.worker_socket import AcknowledgingFunction

if TYPE_CHECKING:
    from headrace.client.network.metadata import TopicMetadata

FORMATS: Final = ("raw", "json", "registry")
"""How values become columns of a table."""

_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_EARLIEST: Final = -2
_MARK: Final = "headrace-table"
"""The file of a checkpoint that names the table, once a batch is in it."""
_OWNER: Final = "headrace-landing"
"""The file of a checkpoint that names the table, from before the first batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLanding:
    """A topic, the table to land it in, and how.

    Args:
        catalog: properties of an Iceberg catalog, beside those of PyIceberg's configuration.
        values: how values become columns: raw, json or registry.
        columns: of json values, such as `page STRING, ms INT`; None lets the first batch show them.
        keys: columns that name a row: later records replace it, or remove it.
        envelope: debezium, if values are change events.
        partition_by: such as `hour(timestamp)`.
        registry: how to reach the schema registry.
        starting: earliest or latest, for a table that does not exist yet.
        options: more options of the source, such as kafka.* or maxOffsetsPerTrigger, and the
            settings by which it counts for the audit (`headrace.flow.execution.auditing`).

    Raises:
        FlowError: more than one topic.
        ConfigError: options that do not fit together.
    """

    topic: str
    brokers: str
    table: TableName
    catalog: Mapping[str, str] = field(default_factory=dict, repr=False)
    values: str = "raw"
    columns: str | None = None
    keys: tuple[str, ...] = ()
    envelope: str | None = None
    partition_by: str | None = None
    registry: RegistryClientSettings | None = None
    starting: str = "earliest"
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if "," in self.topic:
            raise FlowError(
                f"a table holds one topic, and {self.topic!r} names several: run a landing for each"
            )
        if self.values not in FORMATS:
            raise FlowError(f"a format cannot be {self.values!r}: write {', '.join(FORMATS)}")
        if self.values == "registry" and self.registry is None:
            raise FlowError("values with schemas need a schema registry: --registry URL")
        if self.columns is not None and self.values != "json":
            raise FlowError("columns are declared of JSON values: add --as json")
        if self.starting not in ("earliest", "latest"):
            raise FlowError(f"--start cannot be {self.starting!r}: write earliest or latest")
        self._partitioning()
        self._declared()

    @property
    def name(self) -> str:
        """The name of the query and of its group: another than that of a landing in files."""
        return f"land-{self.topic}-{self.table.kind}"

    @property
    def checkpoint(self) -> Location:
        """The checkpoint, unless another one is named: a folder beside a Delta table.

        Raises:
            FlowError: the table is in a catalog, and has no folder of this machine.
        """
        if self.table.kind is TableKind.ICEBERG:
            raise FlowError(
                f"{self.table} needs a folder for Spark's checkpoint: --checkpoint DIR|URI"
            )
        return Location.of(f"{self.table.name}_checkpoint")

    def start(self, spark: Any, *, checkpoint: str, trigger: Mapping[str, Any] | None) -> Any:
        """Start the query, or continue where its checkpoint says.

        Raises:
            FlowError: executors on other machines would not reach the table or the checkpoint.
            LandingError: the table was made for something else.
        """
        self._check_table(spark)
        store = open_checkpoint(spark, Location.of(checkpoint))
        options = self._source_options()
        topic = _Topic(self.topic, options)
        lander = BatchLander(
            Source(
                topic=self.topic,
                topic_id=topic.id,
                values=self.values,
                keys=self.keys,
                envelope=self.envelope,
                partition_by=self._partitioning(),
            ),
            BatchOptions(
                table=self.table,
                catalog=self.catalog,
                columns=self._declared(),
                registry=self.registry,
            ),
            topic.check,
            lambda location: _check_shared(spark, location),
        )
        _claim(store, self.table)
        options["startingOffsets"] = self._starting(lander, topic.partitions)
        options |= self._audit(options)
        rows = spark.readStream.format("headrace").options(**options).load().select(*_COLUMNS)
        writer = rows.writeStream.queryName(self.name).option("checkpointLocation", checkpoint)
        if trigger:
            writer = writer.trigger(**trigger)
        landing = _EachBatch(lander, store, self.topic, str(self.table))
        return writer.foreachBatch(landing.land).outputMode("append").start()

    def _check_table(self, spark: Any) -> None:
        """Refuse files on this machine only: a commit would name files that are on others."""
        place = self.table.name if self.table.kind is TableKind.DELTA else self._warehouse()
        if place is not None:
            _check_shared(spark, place)

    def _warehouse(self) -> str | None:
        """Return the folder of an Iceberg catalog, if it is known before the table is; that of a
        REST catalog may be a name, which only its server understands."""
        kind, uri = self.catalog.get("type", ""), self.catalog.get("uri", "")
        if kind.lower() == "rest" or (not kind and uri.startswith("http")):
            return None
        return self.catalog.get("warehouse")

    def _declared(self) -> pa.Schema | None:
        """Return the columns of a new table; None if records show them."""
        check_keys(self.values, self.keys, self.envelope)
        if self.values == "registry":
            return None
        columns = None if self.columns is None else declared_columns(self.columns)
        decoder = row_decoder(
            self.values,
            columns=columns,
            keys=self.keys,
            envelope=self.envelope,
            partition_by=self._partitioning(),
        )
        return decoder.columns

    def _partitioning(self) -> str | None:
        return None if self.partition_by is None else str(TimePartition.parse(self.partition_by))

    def _source_options(self) -> dict[str, str]:
        own = {key: each for key, each in self.options.items() if key not in SETTINGS}
        brokers = brokers_of(own, self.brokers)
        return {
            "kafka.bootstrap.servers": self.brokers,
            "kafka.group.id": group_of(self.name),
            **without_java(user_settings(own, brokers, self.name)),
            # Values are decoded behind the source, and the offsets must be those of one topic.
            "subscribe": self.topic,
            "includeHeaders": "true",
            "valueFormat": "raw",
            "keyFormat": "raw",
        }

    def _audit(self, options: Mapping[str, str]) -> dict[str, str]:
        from headrace.spark.source.option import SourceOptions

        settings = {key: each for key, each in self.options.items() if key in SETTINGS}
        return audit_options(self.name, settings, SourceOptions.of(options).client)

    def _starting(self, lander: BatchLander, partitions: Sequence[int]) -> str:
        """Return where a query without a checkpoint begins: where the table continues."""
        table = lander.open()
        offsets = {} if table is None else table.offsets(partitions)
        if not offsets:
            return self.starting
        found = {str(each): offsets.get(each, _EARLIEST) for each in partitions}
        return json.dumps({self.topic: found})


def _claim(checkpoint: FileStore, table: TableName) -> None:
    """Write the table's name in a new checkpoint, and refuse one of another landing: its offsets
    say nothing about this table, and records before them would be missing."""
    marks = [each for each in (_MARK, _OWNER) if checkpoint.exists(each)]
    for each in marks:
        found = checkpoint.read(each).decode().strip()
        if _place(found) != _place(str(table)):
            raise FlowError(
                f"the checkpoint {checkpoint.text} belongs to {found}, not to {table}: start with "
                "another --checkpoint, which continues where the table is"
            )
    if not marks:
        if checkpoint.exists("offsets/0"):
            raise FlowError(
                f"the checkpoint {checkpoint.text} belongs to another query, not to {table}: start "
                "with another --checkpoint, which continues where the table is"
            )
        checkpoint.write(_OWNER, f"{table}\n".encode())


def _place(table: str) -> str:
    """Return a table's name that is the same from whichever folder it was written."""
    kind, _, name = table.partition(":")
    return f"delta:{TableName.parse(table).path.resolve()}" if kind == "delta" and name else table


def _check_shared(spark: Any, place: str) -> None:
    # Not Hadoop's default file system: delta-rs and PyIceberg do not know it.
    master = spark.sparkContext.master
    check_reachable(Location.of(place), "the table", master=master, default_fs="file:///")


class _Topic:
    """The topic as it was when the query started."""

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        from headrace.client.settings import ClientSettings
        from headrace.spark.source.option import SourceOptions

        self._name = name
        self._settings = ClientSettings.of(SourceOptions.of(options).client)
        found = self._look()
        self.id = None if found.topic_id is None else str(found.topic_id)
        self.partitions = sorted(found.partitions)

    def check(self) -> None:
        """Check that the topic is still the same: offsets of another one mean other records.

        Raises:
            LandingError: it was deleted since.
        """
        now = self._look().topic_id
        if self.id is not None and str(now) != self.id:
            raise LandingError(
                f"topic {self._name} was deleted and created again: its offsets mean other records "
                "now; land it in another table"
            )

    def _look(self) -> "TopicMetadata":
        from headrace.client.network.pool import ConnectionPool

        with ConnectionPool(self._settings) as pool:
            found = pool.metadata([self._name]).topics.get(self._name)
        if found is None:
            raise LandingError(f"there is no topic {self._name}")
        if found.error is not None:
            raise LandingError(f"topic {self._name} cannot be read: {found.error}")
        return found


@dataclass(slots=True)
class _EachBatch:
    """Lands the batches of a query, in the driver."""

    lander: BatchLander
    checkpoint: FileStore
    topic: str
    table: str
    landed: bool = False

    def land(self, rows: Any, batch_id: int) -> None:
        """Land one batch; `foreachBatch` calls it."""
        self.landed = self.landed or self.checkpoint.exists(_MARK)
        batch = Batch(
            starts=None if batch_id == 0 else self._offsets(batch_id - 1),
            ends=self._offsets(batch_id),
            follows_landed=self.landed,
        )
        self.lander.land(batch, _tasks_of(rows))
        if not self.landed and self.lander.open() is not None:
            self.checkpoint.write(_MARK, f"{self.table}\n".encode())
            self.landed = True

    def _offsets(self, batch_id: int) -> dict[int, int]:
        """Return where a batch ends, as Spark's checkpoint says: the line of its only source."""
        name = f"offsets/{batch_id}"
        try:
            *_, line = self.checkpoint.read(name).decode().splitlines()
            found = load_offsets(json.loads(line))
        except (FileNotFoundError, ValueError, AttributeError) as error:
            raise FlowError(
                f"{name} of the checkpoint {self.checkpoint.text} has no offsets of {self.topic}: "
                "start with another --checkpoint, which continues where the table is"
            ) from error
        return {each.partition: at for each, at in found.items() if each.topic == self.topic}


def _tasks_of(rows: Any) -> Callable[[BatchTask], list[TaskFiles]]:
    """Return what lets executors do a task for the rows of a batch."""

    def run(task: BatchTask) -> list[TaskFiles]:
        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = task.run(batches)
            yield pa.record_batch({"written": pa.array([pickle.dumps(written)], pa.binary())})

        found = rows.mapInArrow(AcknowledgingFunction(write).__call__, "written BINARY").collect()
        # Pickled by our own tasks, a moment ago.
        return [pickle.loads(bytes(each.written)) for each in found]  # noqa: S301

    return run
