"""Carrying out statements in a Spark session.

Rule 1: a query goes to Spark in its place: what stands before it in the script becomes space, so
        that the line and column of Spark's complaints are those of the script.
Rule 2: only streams that a query names become views, right before it runs: a view over what comes,
        or over what is there.
Rule 3: what CREATE STREAM AS and INSERT INTO started runs on until it is stopped; its checkpoint is
        called after the stream, so the same script goes on where it was.
"""

import hashlib
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
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
from headrace.flow.sql.catalog import Catalog, Stream, stream_of
from headrace.flow.sql.error import SqlError, spark_error
from headrace.flow.sql.source import quoted, read_frame, to_records
from headrace.flow.sql.statement import (
    Create,
    Describe,
    Drop,
    Emit,
    Explain,
    Insert,
    Query,
    Select,
    Show,
    Statement,
)
from headrace.flow.sql.token import tokens_of
from headrace.wire.error_code import ErrorCode

MOST_ROWS = 10_000
"""How many rows an answer has at most."""

_POLL_SECONDS = 0.1
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows under names, and a word about them; either may be empty."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    message: str | None = None


ShowRows = Callable[[Sequence[str], Sequence[Sequence[Any]], bool], None]
"""Takes columns, rows, and whether they are the whole result and replace what was shown before."""


@dataclass(slots=True)
class Engine:
    """A session, the streams it knows, and the queries that it runs.

    Args:
        checkpoints: the folder for those of CREATE STREAM AS and INSERT INTO.
        once: let them run over what is there and end, before the next statement begins.
    """

    spark: Any
    brokers: str
    catalog: Catalog
    checkpoints: Path
    once: bool = False
    queries: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Spark's 200 are for a cluster; every one of them is a file or a state store to commit.
        if self.spark.conf.get(_PARTITIONS) == "200":
            self.spark.conf.set(_PARTITIONS, str(self.spark.sparkContext.defaultParallelism))

    def run(self, statement: Statement, script: str) -> Answer:
        """Carry out any statement but a SELECT with EMIT.

        Raises:
            SqlError: showing the place.
        """
        from pyspark.errors import PySparkException

        try:
            return self._run(statement, script)
        except PySparkException as error:
            raise spark_error(error, script, statement.start) from error

    def _run(self, statement: Statement, script: str) -> Answer:
        match statement:
            case Create(query=None):
                return self._declare(statement, stream_of(statement, script), script)
            case Create():
                return self._create_as(statement, script)
            case Insert():
                stream = self.catalog.find(statement.name, script, statement.start)
                return self._fill(stream, statement.query, statement.emit, script)
            case Select():
                return self._now(statement, script)
            case Explain():
                frame = self.frame(statement.query, script, streaming=True)
                return Answer(message=_plan(frame))
            case Show():
                return self._show(statement)
            case Describe():
                return _described(self.catalog.find(statement.name, script, statement.start))
            case Drop():
                return self._drop(statement, script)
            case _:
                raise SqlError("this cannot be carried out", script, statement.start)

    def emit(
        self, select: Select, script: str, show: ShowRows, stopped: Callable[[], bool]
    ) -> None:
        """Show a query's rows as they come, until it is stopped or has shown enough.

        Raises:
            SqlError: the query is wrong, or cannot be answered so.
        """
        frame = self.frame(select.query, script, streaming=True)
        if not frame.isStreaming:
            why = "the query reads no stream, so nothing would ever come: leave EMIT out"
            raise SqlError(why, script, select.start)
        left = [select.limit or MOST_ROWS**2]
        enough = threading.Event()
        modes = _MODES[select.emit]

        def take(whole: bool) -> Callable[[Any, int], None]:
            def taken(rows: Any, _batch: int) -> None:
                if not enough.is_set():
                    found = rows.limit(min(left[0], MOST_ROWS)).collect()
                    if found or whole:
                        show(rows.columns, [tuple(each) for each in found], whole)
                    left[0] -= len(found)
                    if left[0] <= 0:
                        enough.set()

            return taken

        folder = tempfile.mkdtemp(prefix="headrace-sql-")
        try:
            query = self._start(
                frame,
                modes,
                lambda writer, mode: writer.foreachBatch(take(mode == "complete")),
                folder,
                (select.query, script),
            )
            _watch(query, lambda: enough.is_set() or stopped(), (select.query, script))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def frame(self, query: Query, script: str, *, streaming: bool, name: str | None = None) -> Any:
        """What Spark makes of a query; the streams that it names are views by then.

        Args:
            name: of a query that fills a stream: its progress is committed under it, and counted
                for the audit. What only somebody looks at leaves no trace.

        Raises:
            SqlError: it is no SQL, or names what is not there.
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
                        brokers=self.brokers,
                        streaming=streaming,
                        progress=self._progress(name, count=stream.topic not in counted),
                    )
                    counted.add(stream.topic)
                    rows.createOrReplaceTempView(quoted(stream.name))
            return self.spark.sql(blank + query.text)
        except PySparkException as error:
            raise spark_error(error, script, query.start) from error

    def _progress(self, name: str | None, *, count: bool) -> dict[str, str]:
        if name is None:
            return {"commitprogress": "false"}
        client = {"bootstrap.servers": self.brokers}
        audit = audit_options(name, {}, client) if count else {}
        return {"kafka.group.id": group_of(name), **audit}

    def stop(self) -> None:
        for each in self.queries.values():
            each.stop()

    def failed(self) -> str | None:
        """What a query that was started has died of."""
        for name, query in self.queries.items():
            failure = None if query.isActive else query.exception()
            if failure is not None:
                return failure_of(failure).sentence(name)
        return None

    @property
    def running(self) -> bool:
        return any(each.isActive for each in self.queries.values())

    def _declare(self, create: Create, stream: Stream, script: str) -> Answer:
        kind = "table" if create.table else "stream"
        if self.catalog.get(create.name) is not None and not create.replace:
            if create.if_not_exists:
                return Answer(message=f"The {kind} {create.name} is there already.")
            why = f"there is a stream {create.name} already: write CREATE OR REPLACE"
            raise SqlError(why, script, create.start)
        self.catalog.put(stream)
        return Answer(message=f"The {kind} {create.name} is the topic {stream.topic}.")

    def _create_as(self, create: Create, script: str) -> Answer:
        assert create.query is not None
        declared = stream_of(create, script)
        name = _name(declared, create.query)
        frame = self.frame(create.query, script, streaming=True, name=name)
        columns = tuple(
            (each.name, each.dataType.simpleString().upper(), None) for each in frame.schema
        )
        stream = replace(declared, columns=columns)
        if stream.key is not None and stream.key not in stream.names:
            known = ", ".join(stream.names)
            why = f"key is {stream.key!r}, which is no column of the query: it has {known}"
            raise SqlError(why, script, create.options["key"].start)
        self._declare(create, stream, script)
        return self._fill(stream, create.query, create.emit, script, frame)

    def _fill(
        self, stream: Stream, query: Query, emit: Emit, script: str, frame: Any = None
    ) -> Answer:
        """Write a query's rows to the topic of a stream: now, or as they come."""
        from headrace.spark.sink.each_batch import each_batch

        name = _name(stream, query)
        if frame is None:
            frame = self.frame(query, script, streaming=True, name=name)
        try:
            records = to_records(stream, frame)
        except FlowError as error:
            raise SqlError(str(error), script, query.start) from error
        self._make_topic(stream)
        options = {"kafka.bootstrap.servers": self.brokers, "topic": stream.topic}
        if not frame.isStreaming:
            records.write.format("headrace").options(**options).mode("append").save()
            return Answer(message=f"Written to {stream.name}.")
        if name in self.queries and self.queries[name].isActive:
            raise SqlError(f"this query fills {stream.name} already", script, query.start)

        def sink(writer: Any, mode: str) -> Any:
            writer = writer.queryName(name)
            if self.once:
                writer = writer.trigger(availableNow=True)
            if mode == "append":
                return writer.format("headrace").options(**options)
            return writer.foreachBatch(each_batch(name, options))

        started = self._start(
            records, _MODES[emit], sink, str(self.checkpoints / name), (query, script)
        )
        self.queries[name] = started
        if self.once:
            _watch(started, lambda: False, (query, script))
            return Answer(message=f"{stream.name} has what is there now.")
        return Answer(message=f"{stream.name} is being filled, by the query {name}.")

    def _start(
        self,
        frame: Any,
        modes: Sequence[str],
        sink: Callable[[Any, str], Any],
        checkpoint: str,
        place: tuple[Query, str],
    ) -> Any:
        """Start a query in the first output mode that Spark allows for it."""
        from pyspark.errors import AnalysisException

        query, script = place
        refused: Exception | None = None
        for mode in modes:
            writer = frame.writeStream.option("checkpointLocation", checkpoint).outputMode(mode)
            try:
                return sink(writer, mode).start()
            except AnalysisException as error:
                refused = refused or error
        assert refused is not None
        raise spark_error(refused, script, query.start) from refused

    def _now(self, select: Select, script: str) -> Answer:
        frame = self.frame(select.query, script, streaming=False)
        most = min(select.limit or MOST_ROWS, MOST_ROWS)
        found = frame.limit(most + 1).collect()
        cut = f"Only the first {most:,} rows." if len(found) > most else None
        return Answer(frame.columns, [tuple(each) for each in found[:most]], cut)

    def _show(self, show: Show) -> Answer:
        if show.what == "QUERIES":
            rows = [(name, each.isActive) for name, each in self.queries.items()]
            return Answer(("query", "running"), rows)
        wanted = show.what == "TABLES"
        return Answer(
            ("name", "topic", "format", "columns"),
            [
                (each.name, each.topic, each.format, ", ".join(each.names))
                for each in self.catalog
                if each.table == wanted
            ],
        )

    def _drop(self, drop: Drop, script: str) -> Answer:
        if self.catalog.get(drop.name) is None and drop.if_exists:
            return Answer(message=f"There is no stream {drop.name}.")
        stream = self.catalog.find(drop.name, script, drop.start)
        for name, query in self.queries.items():
            if name.rpartition("-")[0].lower() == stream.name.lower():
                query.stop()
        self.catalog.drop(drop.name)
        return Answer(message=f"{stream.name} is dropped; the topic {stream.topic} stays.")

    def _make_topic(self, stream: Stream) -> None:
        settings = ClientSettings.of({"bootstrap.servers": self.brokers})
        with ConnectionPool(settings) as pool:
            topic = NewTopic(stream.topic, stream.partitions or -1)
            for error in Admin(pool).create_topics([topic]).values():
                if error is not None and error.code is not ErrorCode.topic_already_exists:
                    raise error


_MODES: Mapping[Emit, Sequence[str]] = {
    Emit.TABLE: ("complete", "append"),
    Emit.CHANGES: ("update", "append"),
    Emit.FINAL: ("append",),
    Emit.NOW: ("append",),
}


def _watch(query: Any, enough: Callable[[], bool], place: tuple[Query, str]) -> None:
    """Wait until a query has ended, or stop it when it is enough."""
    try:
        while query.isActive and not enough():
            time.sleep(_POLL_SECONDS)
        failure = None if query.isActive else query.exception()
        if failure is not None:
            raise spark_error(failure, place[1], place[0].start)
    finally:
        query.stop()


def _described(stream: Stream) -> Answer:
    rows = [
        (name, ddl, "key" if name == stream.key else "", metadata or "")
        for name, ddl, metadata in stream.columns
    ]
    told = {
        "topic": stream.topic,
        "format": stream.format,
        "timestamp": stream.timestamp,
        "watermark": stream.watermark,
        "starting": stream.starting,
    }
    message = ", ".join(f"{key} {value}" for key, value in told.items() if value)
    return Answer(("column", "type", "role", "metadata"), rows, message)


def _name(stream: Stream, query: Query) -> str:
    """Of the query that fills a stream: the same for the same query, over restarts."""
    text = " ".join(each.text for each in tokens_of(query.text))
    return f"{stream.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _plan(frame: Any) -> str:
    context = frame.sparkSession.sparkContext
    # Spark explains a stream only if it sees at once that it is one, and not in a view's name.
    execution = frame.select("*")._jdf.queryExecution()
    return str(context._jvm.PythonSQLUtils.explainString(execution, "formatted")).strip()
