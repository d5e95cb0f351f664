"""Executing statements in a Spark session.

Rule 1: the text before a query in the script is replaced by spaces before the query goes to Spark,
        so that the line and column of Spark's errors are those of the script.
Rule 2: only streams that a query names become views, right before it runs: streaming views, or
        views over the records there are.
Rule 3: a query of CREATE STREAM AS or INSERT INTO runs until it is stopped. Its checkpoint has the
        name of the stream, so the same script continues where it was.
"""

import hashlib
import re
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.flow.error import FlowError
from headrace.flow.execution.auditing import audit_options
from headrace.flow.execution.failure import failure_of
from headrace.flow.execution.progress_group import group_of
from headrace.flow.execution.session_tuning import partitioned
from headrace.flow.plan.client_option import client_of, client_options, user_settings
from headrace.flow.sql.catalog import Catalog, StreamDefinition, stream_of
from headrace.flow.sql.error import SqlError, spark_error
from headrace.flow.sql.registry_stream import (
    column_ddl,
    inferred,
    subject_of,
    writing_options,
)
from headrace.flow.sql.source import quoted, read_frame, to_records
from headrace.flow.sql.statement import (
    CreateStatement,
    DescribeStatement,
    DropStatement,
    EmitMode,
    ExplainStatement,
    InsertStatement,
    SelectStatement,
    ShowStatement,
    SparkQuery,
    Statement,
)
from headrace.flow.sql.token import tokens_of
from headrace.flow.storage.checkpoint_store import open_checkpoint
from headrace.flow.storage.hadoop_file_store import open_store
from headrace.flow.storage.location import Location, is_cluster
from headrace.model.error import HeadraceError
from headrace.wire.error_code import ErrorCode

MOST_ROWS = 10_000
"""The most rows of a result."""

_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a statement, and a message about them; either may be empty."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    message: str | None = None


ShowRows = Callable[[Sequence[str], Sequence[Sequence[Any]], bool], None]
"""A function of columns, rows, and whether they are the whole result and replace earlier rows."""


@dataclass(slots=True)
class Engine:
    """A session, the streams that it knows, and the queries that it runs.

    Args:
        checkpoints: the folder for the checkpoints of CREATE STREAM AS and INSERT INTO, as a path
            or as a URI such as hdfs://host/sql.
        client: `kafka.*` options by which all of its clients connect; what they do not say comes
            from this user's client.properties ($HEADRACE_CLIENT_CONFIG).
        once: run such a query over the records there are, before the next statement begins.
    """

    spark: Any
    brokers: str
    catalog: Catalog
    checkpoints: str | Path | Location
    once: bool = False
    client: Mapping[str, str] = field(default_factory=dict)
    queries: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client = user_settings(self.client, self.brokers, "SQL")

    def run(self, statement: Statement, script: str) -> QueryResult:
        """Execute any statement but a SELECT with EMIT.

        Raises:
            SqlError: showing the mistake in the script.
        """
        from pyspark.errors import PySparkException

        try:
            return self._run(statement, script)
        except PySparkException as error:
            raise spark_error(error, script, statement.start) from error

    def _run(self, statement: Statement, script: str) -> QueryResult:
        match statement:
            case CreateStatement(query=None):
                return self._declare(statement, _inferred(statement, script), script)
            case CreateStatement():
                return self._create_as(statement, script)
            case InsertStatement():
                stream = self.catalog.find(statement.name, script, statement.start)
                return self._fill(stream, statement.query, statement.emit, script)
            case SelectStatement():
                return self._now(statement, script)
            case ExplainStatement():
                frame = self.frame(statement.query, script, streaming=True)
                return QueryResult(message=_plan(frame))
            case ShowStatement():
                return self._show(statement)
            case DescribeStatement():
                return _described(self.catalog.find(statement.name, script, statement.start))
            case DropStatement():
                return self._drop(statement, script)
            case _:
                raise SqlError("this cannot be carried out", script, statement.start)

    def emit(
        self, select: SelectStatement, script: str, show: ShowRows, stopped: Callable[[], bool]
    ) -> None:
        """Show a query's rows as they come, until it is stopped or its LIMIT is reached.

        Raises:
            SqlError: the query is wrong, or Spark cannot run it as a stream.
        """
        frame = self.frame(select.query, script, streaming=True)
        if not frame.isStreaming:
            why = "the query reads no stream, so nothing would ever come: leave EMIT out"
            raise SqlError(why, script, select.start)
        left = [select.limit or MOST_ROWS**2]
        enough = threading.Event()
        modes = _MODES[select.emit]

        def show_batch(whole: bool) -> Callable[[Any, int], None]:
            def show_rows(frame: Any, _batch: int) -> None:
                if not enough.is_set():
                    rows = frame.limit(min(left[0], MOST_ROWS)).collect()
                    if rows or whole:
                        show(frame.columns, [tuple(each) for each in rows], whole)
                    left[0] -= len(rows)
                    if left[0] <= 0:
                        enough.set()

            return show_rows

        with self._temporary_checkpoint() as folder:
            query = self._start(
                frame,
                modes,
                lambda writer, mode: writer.foreachBatch(show_batch(mode == "complete")),
                folder,
                (select.query, script),
            )
            _watch(query, lambda: enough.is_set() or stopped(), (select.query, script))

    def frame(
        self, query: SparkQuery, script: str, *, streaming: bool, name: str | None = None
    ) -> Any:
        """Make views of the streams that a query names, and return the query's DataFrame.

        Args:
            name: of a query that fills a stream: its progress is committed and audited under this
                name. A query that only shows rows has none, and leaves no trace.

        Raises:
            SqlError: the query is no SQL, or names something that does not exist.
        """
        from pyspark.errors import PySparkException

        counted: set[str] = set()
        named = {each.value.lower() for each in tokens_of(query.text) if each.kind != "string"}
        blank = re.sub(r"[^\n]", " ", script[: query.start])
        try:
            for stream in self.catalog:
                if stream.name.lower() in named:
                    rows = read_frame(
                        stream,
                        self.spark,
                        client=self._kafka,
                        streaming=streaming,
                        progress=self._progress(name, count=stream.topic not in counted),
                    )
                    counted.add(stream.topic)
                    rows.createOrReplaceTempView(quoted(stream.name))
            return self.spark.sql(blank + query.text)
        except PySparkException as error:
            raise spark_error(error, script, query.start) from error

    @property
    def _kafka(self) -> dict[str, str]:
        return {**client_options(self.client), "kafka.bootstrap.servers": self.brokers}

    def _progress(self, name: str | None, *, count: bool) -> dict[str, str]:
        if name is None:
            return {"commitprogress": "false"}
        audit = audit_options(name, {}, client_of(self.client, self.brokers)) if count else {}
        return {"kafka.group.id": group_of(name), **audit}

    def stop(self) -> None:
        for each in self.queries.values():
            each.stop()

    def failed(self) -> str | None:
        """Return why a query failed, in a sentence; None if none did."""
        for name, query in self.queries.items():
            failure = None if query.isActive else query.exception()
            if failure is not None:
                return failure_of(failure).sentence(name)
        return None

    @property
    def running(self) -> bool:
        return any(each.isActive for each in self.queries.values())

    def _declare(
        self, create: CreateStatement, stream: StreamDefinition, script: str
    ) -> QueryResult:
        kind = "table" if create.table else "stream"
        if self.catalog.get(create.name) is not None and not create.replace:
            if create.if_not_exists:
                return QueryResult(message=f"The {kind} {create.name} is there already.")
            why = f"there is a stream {create.name} already: write CREATE OR REPLACE"
            raise SqlError(why, script, create.start)
        self.catalog.put(stream)
        return QueryResult(message=f"The {kind} {create.name} is the topic {stream.topic}.")

    def _create_as(self, create: CreateStatement, script: str) -> QueryResult:
        assert create.query is not None
        declared = stream_of(create, script)
        name = _name(declared, create.query)
        frame = self.frame(create.query, script, streaming=True, name=name)
        columns = tuple((each.name, column_ddl(each.dataType), None) for each in frame.schema)
        stream = replace(declared, columns=columns)
        if stream.key is not None and stream.key not in stream.names:
            known = ", ".join(stream.names)
            why = f"key is {stream.key!r}, which is no column of the query: it has {known}"
            raise SqlError(why, script, create.options["key"].start)
        self._declare(create, stream, script)
        return self._fill(stream, create.query, create.emit, script, frame)

    def _fill(
        self,
        stream: StreamDefinition,
        query: SparkQuery,
        emit: EmitMode,
        script: str,
        frame: Any = None,
    ) -> QueryResult:
        """Write a query's rows to the topic of a stream, as a batch or as a stream."""
        from headrace.spark.sink.each_batch import each_batch

        name = _name(stream, query)
        declared_by_query = frame is not None
        if frame is None:
            frame = self.frame(query, script, streaming=True, name=name)
        try:
            records = to_records(stream, frame)
        except FlowError as error:
            raise SqlError(str(error), script, query.start) from error
        self._make_topic(stream)
        options = {**self._kafka, "topic": stream.topic}
        if stream.registry:
            options |= writing_options(stream, declared_by_query=declared_by_query)
        if not frame.isStreaming:
            with partitioned(self.spark):
                # One transaction: a task that Spark runs twice adds no rows, and a write that fails
                # shows none.
                writer = records.write.format("headrace").options(
                    **options, guarantee="exactly-once"
                )
                writer.mode("append").save()
            return QueryResult(message=f"Written to {stream.name}.")
        if name in self.queries and self.queries[name].isActive:
            raise SqlError(f"this query fills {stream.name} already", script, query.start)

        def sink(writer: Any, mode: str) -> Any:
            writer = writer.queryName(name)
            if self.once:
                writer = writer.trigger(availableNow=True)
            if mode == "append":
                return writer.format("headrace").options(**options)
            return writer.foreachBatch(each_batch(name, options))

        checkpoint = Location.of(self.checkpoints).child(name)
        started = self._start(records, _MODES[emit], sink, checkpoint.text, (query, script))
        self.queries[name] = started
        if self.once:
            _watch(started, lambda: False, (query, script))
            return QueryResult(message=f"{stream.name} has what is there now.")
        return QueryResult(message=f"{stream.name} is being filled, by the query {name}.")

    @contextmanager
    def _temporary_checkpoint(self) -> Iterator[str]:
        """Yield a checkpoint for a query that only shows rows: on a cluster, beside the others,
        where executors reach it too."""
        if not is_cluster(self.spark.sparkContext.master):
            with tempfile.TemporaryDirectory(
                prefix="headrace-sql-", ignore_cleanup_errors=True
            ) as folder:
                yield folder
            return
        checkpoints = Location.of(self.checkpoints)
        name = f"_shown-{uuid.uuid4().hex}"
        store = open_store(self.spark, checkpoints, "the folder of checkpoints")
        try:
            yield checkpoints.child(name).text
        finally:
            store.remove(name)

    def _start(
        self,
        frame: Any,
        modes: Sequence[str],
        sink: Callable[[Any, str], Any],
        checkpoint: str,
        location: tuple[SparkQuery, str],
    ) -> Any:
        """Start a query in the first of these output modes that Spark allows for it."""
        from pyspark.errors import AnalysisException

        query, script = location
        refused: Exception | None = None
        store = open_checkpoint(self.spark, Location.of(checkpoint))
        for mode in modes:
            writer = frame.writeStream.option("checkpointLocation", checkpoint).outputMode(mode)
            try:
                with partitioned(self.spark, store):
                    return sink(writer, mode).start()
            except AnalysisException as error:
                refused = refused or error
        assert refused is not None
        raise spark_error(refused, script, query.start) from refused

    def _now(self, select: SelectStatement, script: str) -> QueryResult:
        frame = self.frame(select.query, script, streaming=False)
        most = min(select.limit or MOST_ROWS, MOST_ROWS)
        with partitioned(self.spark):
            rows = frame.limit(most + 1).collect()
        cut = f"Only the first {most:,} rows." if len(rows) > most else None
        return QueryResult(frame.columns, [tuple(each) for each in rows[:most]], cut)

    def _show(self, show: ShowStatement) -> QueryResult:
        if show.what == "QUERIES":
            rows = [(name, each.isActive) for name, each in self.queries.items()]
            return QueryResult(("query", "running"), rows)
        tables = show.what == "TABLES"
        return QueryResult(
            ("name", "topic", "format", "columns"),
            [
                (each.name, each.topic, each.format, ", ".join(each.names))
                for each in self.catalog
                if each.table == tables
            ],
        )

    def _drop(self, drop: DropStatement, script: str) -> QueryResult:
        if self.catalog.get(drop.name) is None and drop.if_exists:
            return QueryResult(message=f"There is no stream {drop.name}.")
        stream = self.catalog.find(drop.name, script, drop.start)
        for name, query in self.queries.items():
            if name.rpartition("-")[0].lower() == stream.name.lower():
                query.stop()
        self.catalog.drop(drop.name)
        return QueryResult(message=f"{stream.name} is dropped; the topic {stream.topic} stays.")

    def _make_topic(self, stream: StreamDefinition) -> None:
        settings = ClientSettings.of(client_of(self.client, self.brokers))
        with ConnectionPool(settings) as pool:
            topic = NewTopic(stream.topic, stream.partitions or -1)
            for error in Admin(pool).create_topics([topic]).values():
                if error is not None and error.code is not ErrorCode.topic_already_exists:
                    raise error


_MODES: Mapping[EmitMode, Sequence[str]] = {
    EmitMode.TABLE: ("complete", "append"),
    EmitMode.CHANGES: ("update", "append"),
    EmitMode.FINAL: ("append",),
    EmitMode.NOW: ("append",),
}


def _watch(query: Any, enough: Callable[[], bool], location: tuple[SparkQuery, str]) -> None:
    """Wait until a query has ended, or stop it when `enough` returns true."""
    try:
        while query.isActive and not enough():
            time.sleep(_POLL_SECONDS)
        failure = None if query.isActive else query.exception()
        if failure is not None:
            raise spark_error(failure, location[1], location[0].start)
    finally:
        query.stop()


def _inferred(create: CreateStatement, script: str) -> StreamDefinition:
    """Return the stream that a statement declares, with its columns from the registry if need be.

    Raises:
        SqlError: showing the mistake in the statement.
    """
    declared = stream_of(create, script)
    at = next((each for key, each in create.options.items() if "registry" in key), create).start
    try:
        stream = inferred(declared)
    except HeadraceError as error:
        raise SqlError(str(error), script, at) from error
    for option, column in (("timestamp", stream.timestamp), ("key", stream.key)):
        if column is not None and column not in stream.names:
            known = ", ".join(stream.names)
            why = f"{option} is {column!r}, which is no column: there are {known}"
            raise SqlError(why, script, create.options[option].start)
    return stream


def _described(stream: StreamDefinition) -> QueryResult:
    rows = [
        (name, ddl, "key" if name == stream.key else "", metadata or "")
        for name, ddl, metadata in stream.columns
    ]
    options = {
        "topic": stream.topic,
        "format": stream.format,
        "subject": subject_of(stream) if stream.registry else None,
        "timestamp": stream.timestamp,
        "watermark": stream.watermark,
        "starting": stream.starting,
    }
    message = ", ".join(f"{key} {value}" for key, value in options.items() if value)
    return QueryResult(("column", "type", "role", "metadata"), rows, message)


def _name(stream: StreamDefinition, query: SparkQuery) -> str:
    """Return the name of the query that fills a stream; a restart of the script has the same."""
    text = " ".join(each.text for each in tokens_of(query.text))
    return f"{stream.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _plan(frame: Any) -> str:
    context = frame.sparkSession.sparkContext
    # Spark does not see that a view is a stream until something is selected from it.
    execution = frame.select("*")._jdf.queryExecution()
    return str(context._jvm.PythonSQLUtils.explainString(execution, "formatted")).strip()
