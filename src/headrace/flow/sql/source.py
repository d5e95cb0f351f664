"""Reading a stream as rows of Spark, and turning rows into records."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.execution.connector_option import capped
from headrace.flow.sql.catalog import StreamDefinition
from headrace.flow.sql.registry_stream import value_options

_KEEP_NULLS = "map('ignoreNullFields', 'false')"


def read_frame(
    stream: StreamDefinition,
    spark: Any,
    *,
    client: Mapping[str, str],
    streaming: bool,
    progress: Mapping[str, str],
) -> Any:
    """Return the rows of a stream, as a streaming or a batch DataFrame.

    A table is always a batch DataFrame: joined with a stream, it is read again for every batch.

    Args:
        client: `kafka.*` options: where the brokers are, and how to log in.
        progress: options of a streaming read: the group for its progress, and the audit.
    """
    streaming = streaming and not stream.table
    reader = (spark.readStream if streaming else spark.read).format("headrace")
    options = {
        **client,
        "subscribe": stream.topic,
        "startingoffsets": stream.starting if streaming else "earliest",
        **(progress if streaming else {}),
        **_decoding(stream),
        **dict(stream.options),
    }
    options = capped(options) if streaming else options
    rows = reader.options(**options).load()
    columns = [f"{_expression(stream, *each)} AS {quoted(each[0])}" for each in stream.columns]
    if stream.table:
        return _newest(stream, rows, columns)
    rows = rows.selectExpr(*columns)
    if streaming and stream.watermark is not None:
        rows = rows.withWatermark(stream.timestamp, stream.watermark)
    return rows


def _decoding(stream: StreamDefinition) -> dict[str, str]:
    if not stream.value_columns:
        return {}
    if stream.registry:
        return value_options(stream)
    if stream.format == "string":
        return {"valueformat": "string"}
    columns = ", ".join(f"{quoted(name)} {ddl}" for name, ddl in stream.value_columns)
    return {"valueformat": stream.format, "valueschema": stream.schema or columns}


def _expression(stream: StreamDefinition, name: str, ddl: str, metadata: str | None) -> str:
    if metadata is not None:
        return f"CAST({metadata} AS {ddl})"
    if stream.format == "string":
        return "value"
    return f"CAST(value.{quoted(name)} AS {ddl})"


def _newest(stream: StreamDefinition, rows: Any, columns: Sequence[str]) -> Any:
    """Return the last row of every key; a record without a value deletes its key."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    key = next(each for each in stream.columns if each[0] == stream.key)
    # A null value has no fields, so the key of a deletion must come from the record.
    by = "key" if key[2] is None else _expression(stream, *key)
    last = rows.selectExpr(
        f"{by} AS _by", "value IS NULL AS _gone", f"struct({', '.join(columns)}) AS _row", "offset"
    )
    newest = last.groupBy("_by").agg(
        F.max_by(F.struct("_gone", "_row"), F.col("offset")).alias("_last")
    )
    return newest.where("NOT _last._gone").select("_last._row.*")


def to_records(stream: StreamDefinition, rows: Any) -> Any:
    """Return rows with the columns of a stream, in their order, as records for the sink.

    Raises:
        FlowError: the rows have another number of columns, or the format cannot be written.
    """
    columns = stream.value_columns
    if stream.format == "avro" and not stream.registry:
        raise FlowError(
            f"{stream.name} is of format avro, which is read and not written without the option"
            " schema.registry"
        )
    if len(rows.columns) != len(columns):
        raise FlowError(
            f"the query has {len(rows.columns)} columns ({', '.join(rows.columns)}), but"
            f" {stream.name} has {len(columns)}: {', '.join(name for name, _ in columns)}"
        )
    named = rows.toDF(*(name for name, _ in columns))
    casts = ", ".join(f"CAST({quoted(name)} AS {ddl}) AS {quoted(name)}" for name, ddl in columns)
    value = {
        "struct": f"struct({casts})",
        "json": f"to_json(struct({casts}), {_KEEP_NULLS})",
        "csv": f"to_csv(struct({casts}))",
        "string": f"CAST({quoted(columns[0][0])} AS STRING)",
    }["struct" if stream.registry else stream.format]
    record = [f"{value} AS value"]
    if stream.key is not None:
        record.append(f"CAST({quoted(stream.key)} AS STRING) AS key")
    return named.selectExpr(*record)


def quoted(name: str) -> str:
    """Return a name in Spark's back quotes."""
    return f"`{name.replace('`', '``')}`"
