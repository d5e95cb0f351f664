"""Landing topics in a folder of Parquet files, by the hour, each record once.

Spark's file sink keeps a log of the files of every batch beside them (`_spark_metadata`). A batch
that Spark repeats after a crash is either in that log already, or writes new files; the files of
the crash are in no log. Spark reads only the files that the log names, so it sees each record once.
Readers that do not know the log (DuckDB, pyarrow) see the files of the crash too, until
`stray_files` are removed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlparse

from headrace.flow.error import FlowError
from headrace.flow.execution.auditing import SETTINGS, audit_options
from headrace.flow.execution.progress_group import group_of
from headrace.flow.plan.client_option import brokers_of, user_settings, without_java
from headrace.flow.storage.checkpoint_store import open_checkpoint
from headrace.flow.storage.file_store import FileStore
from headrace.flow.storage.hadoop_file_store import open_store
from headrace.flow.storage.location import Location

LOG = "_spark_metadata"
CHECKPOINT = "_checkpoint"
FORMATS = ("raw", "string", "json", "csv", "avro")
_COMPACT = ".compact"
_PARTITIONS = ("date", "hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Topics, the folder to land them in, and how.

    Args:
        folder: a path, or a URI such as s3a://bucket/clicks.
        format: how values are decoded: raw, string, json, csv or avro; the last three need
            `columns`, and give a struct.
        columns: the columns of the values, such as `page STRING, ms INT`.
        time: the time that decides on the hour: the record's `timestamp`, or a field such as
            `value.at`. Hours are those of UTC.
        options: more options of the source, such as kafka.* or maxOffsetsPerTrigger, and the
            settings by which it counts for the audit (`headrace.flow.execution.auditing`).
    """

    topics: str
    brokers: str
    folder: str
    format: str = "raw"
    columns: str | None = None
    time: str = "timestamp"
    starting: str = "earliest"
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise FlowError(f"a format cannot be {self.format!r}: write {', '.join(FORMATS)}")
        if (self.columns is None) == (self.format in ("json", "csv", "avro")):
            raise FlowError(
                "json, csv and avro need columns, such as 'page STRING, ms INT'; raw and string"
                " have none"
            )

    @property
    def name(self) -> str:
        return f"land-{self.topics}"

    @property
    def checkpoint(self) -> Location:
        """The checkpoint, unless another one is named."""
        return Location.of(self.folder).child(CHECKPOINT)

    def _source_options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.brokers,
            "subscribe": self.topics,
            "startingOffsets": self.starting,
            "valueFormat": self.format,
            "kafka.group.id": group_of(self.name),
        }
        if self.columns is not None:
            options["valueSchema"] = self.columns
        own = {key: each for key, each in self.options.items() if key not in SETTINGS}
        brokers = brokers_of(own, self.brokers)
        return {**options, **without_java(user_settings(own, brokers, self.name))}

    def _audit(self, options: Mapping[str, str]) -> dict[str, str]:
        from headrace.spark.source.option import SourceOptions

        settings = {key: each for key, each in self.options.items() if key in SETTINGS}
        return audit_options(self.name, settings, SourceOptions.of(options).client)

    def files(self, spark: Any) -> FileStore:
        """Return the files of the folder.

        Raises:
            FlowError: executors on other machines would not reach the folder.
        """
        return open_store(spark, Location.of(self.folder), "the folder")

    def start(self, spark: Any, *, checkpoint: str, trigger: Mapping[str, Any] | None) -> Any:
        """Start the query, or continue where its checkpoint says.

        Raises:
            FlowError: executors on other machines would not reach the folder or the checkpoint.
        """
        self.files(spark)
        open_checkpoint(spark, Location.of(checkpoint))
        options = self._source_options()
        options |= self._audit(options)
        rows = spark.readStream.format("headrace").options(**options).load()
        utc = f"to_utc_timestamp({self.time}, current_timezone())"
        landed = rows.selectExpr(
            *("key", "value", "topic", "partition", "offset", "timestamp"),
            f"date_format({utc}, 'yyyy-MM-dd') AS date",
            f"date_format({utc}, 'HH') AS hour",
        )
        writer = landed.writeStream.queryName(self.name).format("parquet")
        writer = writer.option("path", self.folder).option("checkpointLocation", checkpoint)
        if trigger:
            writer = writer.trigger(**trigger)
        return writer.partitionBy(*_PARTITIONS).outputMode("append").start()


def stray_files(folder: FileStore) -> list[str]:
    """Return the Parquet files of a folder that its log does not name: crashes left them.

    Call it only while no query lands there: files of a running batch are not in the log yet.
    """
    named = {each.rpartition("/")[2] for each in logged_files(folder)}
    files = folder.find("date=*/hour=*/*.parquet")
    return [each for each in files if each.rpartition("/")[2] not in named]


def logged_files(folder: FileStore) -> Iterator[str]:
    """Yield the paths of the files that Spark's log names, within their file system.

    Raises:
        FlowError: the log is not as Spark writes it.
    """
    numbers = {_number(each): each for each in folder.names(LOG) if _number(each) is not None}
    compacted = [number for number, each in numbers.items() if each.endswith(_COMPACT)]
    first = max(compacted, key=lambda each: each or 0, default=0) or 0
    for number, name in sorted(numbers.items(), key=lambda each: each[0] or 0):
        if (number or 0) < first:
            continue
        version, *lines = folder.read(f"{LOG}/{name}").decode().splitlines() or [""]
        if version != "v1":
            raise FlowError(
                f"{folder.text}/{LOG}/{name} begins with {version[:20]!r}: this log of Spark is not"
                " known"
            )
        for line in lines:
            yield unquote(urlparse(json.loads(line)["path"]).path)


def _number(name: str) -> int | None:
    text = name.removesuffix(_COMPACT)
    return int(text) if text.isdigit() else None
