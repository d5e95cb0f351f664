"""Streams as rows of Spark, and rows as records."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.sql.catalog import Stream

_KEEP_NULLS = "map('ignoreNullFields', 'false')"


def read_frame(
    stream: Stream, spark: Any, *, brokers: str, streaming: bool, progress: Mapping[str, str]
) -> Any:
    """The rows of a stream: those that come, or those that are there.

    A table is never a stream: joined with one, it is read anew for every batch.

    Args:
        progress: options of what comes: where its progress is committed, and who counts it.
    """
    streaming = streaming and not stream.table
    reader = (spark.readStream if streaming else spark.read).format("headrace")
    options = {
        "kafka.bootstrap.servers": brokers,
        "kafka.isolation.level": "read_committed",
        "subscribe": stream.topic,
        "startingoffsets": stream.starting if streaming else "earliest",
        **(progress if streaming else {}),
        **_decoding(stream),
        **dict(stream.options),
    }
    rows = reader.options(**options).load()
    columns = [f"{_expression(stream, *each)} AS {quoted(each[0])}" for each in stream.columns]
    if stream.table:
        return _newest(stream, rows, columns)
    rows = rows.selectExpr(*columns)
    if streaming and stream.watermark is not None:
        rows = rows.withWatermark(stream.timestamp, stream.watermark)
    return rows


def _decoding(stream: Stream) -> dict[str, str]:
    if not stream.value_columns:
        return {}
    if stream.format == "string":
        return {"valueformat": "string"}
    columns = ", ".join(f"{quoted(name)} {ddl}" for name, ddl in stream.value_columns)
    return {"valueformat": stream.format, "valueschema": stream.schema or columns}


def _expression(stream: Stream, name: str, ddl: str, metadata: str | None) -> str:
    if metadata is not None:
        return f"CAST({metadata} AS {ddl})"
    if stream.format == "string":
        return "value"
    return f"CAST(value.{quoted(name)} AS {ddl})"


def _newest(stream: Stream, rows: Any, columns: Sequence[str]) -> Any:
    """The last row of every key; a record without a value takes its key away."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

    key = next(each for each in stream.columns if each[0] == stream.key)
    # A null value has no fields, so the key of a deletion can only come from the record.
    by = "key" if key[2] is None else _expression(stream, *key)
    last = rows.selectExpr(
        f"{by} AS _by", "value IS NULL AS _gone", f"struct({', '.join(columns)}) AS _row", "offset"
    )
    newest = last.groupBy("_by").agg(
        F.max_by(F.struct("_gone", "_row"), F.col("offset")).alias("_last")
    )
    return newest.where("NOT _last._gone").select("_last._row.*")


def to_records(stream: Stream, rows: Any) -> Any:
    """The columns of the sink, of rows with the columns of a stream in their order.

    Raises:
        FlowError: rows of another number of columns, or a format that is only read.
    """
    wanted = stream.value_columns
    if stream.format == "avro":
        raise FlowError(f"{stream.name} is of format avro, which is read and not written")
    if len(rows.columns) != len(wanted):
        raise FlowError(
            f"the query has {len(rows.columns)} columns ({', '.join(rows.columns)}), but"
            f" {stream.name} has {len(wanted)}: {', '.join(name for name, _ in wanted)}"
        )
    named = rows.toDF(*(name for name, _ in wanted))
    columns = ", ".join(f"CAST({quoted(name)} AS {ddl}) AS {quoted(name)}" for name, ddl in wanted)
    value = {
        "json": f"to_json(struct({columns}), {_KEEP_NULLS})",
        "csv": f"to_csv(struct({columns}))",
        "string": f"CAST({quoted(wanted[0][0])} AS STRING)",
    }[stream.format]
    made = [f"{value} AS value"]
    if stream.key is not None:
        made.append(f"CAST({quoted(stream.key)} AS STRING) AS key")
    return named.selectExpr(*made)


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
