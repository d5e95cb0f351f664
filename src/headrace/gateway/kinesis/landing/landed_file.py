"""The Parquet files of a landing.

The columns are those of the format `kinesis` for Spark, and `shardId`. `data` is text, or bytes if
the channel's format is BYTE_ARRAY. Records that are not of the channel's format, no JSON for
instance, are dead letters: bytes, with the reason.

The same records make the same files, whichever gateway writes them.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from headrace.gateway.kinesis.channel.channel_state import ChannelState, Landing, RecordFormat
from headrace.gateway.kinesis.landing.landing_buffer import ShardRows
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.stream.shard import Shard, shard_id

_CODECS: Final = {"NONE": "none", "GZIP": "gzip", "ZSTD": "zstd"}
_REST: Final = [
    ("streamName", pa.string()),
    ("shardId", pa.string()),
    ("partitionKey", pa.string()),
    ("sequenceNumber", pa.string()),
    ("approximateArrivalTimestamp", pa.timestamp("ms", "UTC")),
]
_TEXTS: Final = pa.schema([("data", pa.string()), *_REST])
_BYTES: Final = pa.schema([("data", pa.binary()), *_REST])
_DEAD_LETTERS: Final = pa.schema([("data", pa.binary()), *_REST, ("errorMessage", pa.string())])


class LandedFiles(NamedTuple):
    """What a landing writes.

    Attributes:
        files: content by path.
        data_bytes: of all records.
    """

    landing: Landing
    files: dict[str, pa.Buffer]
    records: int
    data_bytes: int
    dead_letters: int


def landed_files(
    channel: ChannelState, landing: Landing, parts: Sequence[ShardRows]
) -> LandedFiles:
    """Return the files of a landing. One that would be empty is left out."""
    good: list[tuple[Shard, StoredRow, str]] = []
    bad: list[tuple[Shard, StoredRow, str]] = []
    for shard, rows in parts:
        for row in rows:
            problem = _problem(channel.record_format, row.value)
            (bad if problem else good).append((shard, row, problem))
    schema = _BYTES if channel.record_format is RecordFormat.BYTE_ARRAY else _TEXTS
    files = {}
    if good:
        files[landing.path] = _parquet(channel, landing, schema, good)
    if bad:
        files[landing.error_path] = _parquet(channel, landing, _DEAD_LETTERS, bad)
    size = sum(len(row.value) for _, row, _ in good)
    return LandedFiles(landing, files, len(good), size, len(bad))


def _problem(record_format: RecordFormat, data: bytes) -> str:
    """Return why data is not of a format; an empty text if it is."""
    if record_format is RecordFormat.BYTE_ARRAY:
        return ""
    try:
        text = data.decode()
        if record_format is RecordFormat.JSON:
            json.loads(
                text,
                parse_constant=_no_constant,
                parse_int=_nothing,
                parse_float=_nothing,
                object_pairs_hook=_nothing,
            )
    except UnicodeDecodeError as error:
        return f"no UTF-8: {error.reason} at byte {error.start}"
    except (ValueError, RecursionError) as error:
        return f"no JSON: {error}"[:300]
    return ""


def _nothing(_: Any) -> None:
    """Make no value of what was parsed: a number may have more digits than Python's `int` takes.

    It also lets other threads run: without a function of Python in between, a record of 10 MiB
    keeps them from it for a second. One of strings only still does.
    """


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no value of JSON")


def _parquet(
    channel: ChannelState,
    landing: Landing,
    schema: pa.Schema,
    found: Sequence[tuple[Shard, StoredRow, str]],
) -> pa.Buffer:
    columns: dict[str, list[Any]] = {
        "data": [row.value for _, row, _ in found],
        "streamName": [channel.stream] * len(found),
        "shardId": [shard.id for shard, _, _ in found],
        "partitionKey": [
            None if row.key is None else row.key.decode("utf-8", "replace") for _, row, _ in found
        ],
        "sequenceNumber": [
            shard.sequence_number(row.offset, row.time_ms) for shard, row, _ in found
        ],
        "approximateArrivalTimestamp": [max(0, row.time_ms) for _, row, _ in found],
    }
    if "errorMessage" in schema.names:
        columns["errorMessage"] = [problem for _, _, problem in found]
    ranges = {shard_id(each.shard): [each.start, each.end] for each in landing.ranges}
    about = {
        "headrace.channel": f"{channel.name}/{channel.id}",
        "headrace.landing": str(landing.number),
        "headrace.offsets": json.dumps(ranges),
    }
    arrays = [
        pa.array(columns[each.name], pa.int64()).cast(each.type)
        if pa.types.is_timestamp(each.type)
        else pa.array(columns[each.name], each.type)
        for each in schema
    ]
    table = pa.Table.from_arrays(arrays, schema=schema.with_metadata(about))
    sink = pa.BufferOutputStream()
    codec = _CODECS[channel.storage["CompressionType"]]
    pyarrow.parquet.write_table(table, sink, compression=codec)
    return sink.getvalue()
