"""The two topics through which commands see and change flows of other machines.

Drivers write to `RUNS` and read `REQUESTS`; commands read `RUNS` and write to `REQUESTS`. They are
two so that an ACL can let a user look at flows without letting him stop them.

Rule 1: both are bounded. Every driver that runs reports again every few seconds, so what retention
        removes of `RUNS` is of drivers that are gone. Compaction keeps reading it short.
Rule 2: a time in `RUNS` is that of its leader (LogAppendTime): clocks of drivers may differ.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.read_range import LogEdge, ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.flow.remote.topic_name import REQUESTS, RUNS
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_MIB: Final = 1024 * 1024
_TEN_MINUTES_MS: Final = 10 * 60 * 1000
_CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    RUNS: {
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "LogAppendTime",
        "min.cleanable.dirty.ratio": "0.1",
        "max.message.bytes": str(_MIB // 2),
        "retention.bytes": str(64 * _MIB),
        "retention.ms": str(24 * 60 * 60 * 1000),
        "segment.bytes": str(4 * _MIB),
        "segment.ms": str(_TEN_MINUTES_MS),
    },
    REQUESTS: {
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "max.message.bytes": str(_MIB // 8),
        "retention.bytes": str(16 * _MIB),
        "retention.ms": str(60 * 60 * 1000),
        "segment.bytes": str(4 * _MIB),
        "segment.ms": str(_TEN_MINUTES_MS),
    },
}
IN_FLIGHT_BYTES: Final = 2 * _MIB
COLUMNS: Final = ("timestamp", "key", "value")
_MISSING: Final = ErrorCode.unknown_topic_or_partition


def create_missing_topics(settings: ClientSettings) -> None:
    """Create those of the two that are missing. With both there, no right to create is needed.

    Raises:
        ClientError: the cluster does not answer, or refuses.
    """
    with ConnectionPool(settings) as pool:
        known = pool.metadata(list(_CONFIGS)).topics
        missing = [
            NewTopic(name, 1, configs=configs)
            for name, configs in _CONFIGS.items()
            if name not in known or getattr(known[name].error, "code", None) is _MISSING
        ]
        outcomes = Admin(pool).create_topics(missing) if missing else {}
    for error in outcomes.values():
        if error is not None and error.code is not ErrorCode.topic_already_exists:
            raise error


def open_writer(settings: ClientSettings, topic: str) -> Writer:
    """Return a writer of small records. A retry may write one twice, which readers allow for."""
    return Writer(settings, topic, acks="all", idempotent=False, linger_ms=0)


def write(writer: Writer, key: bytes, value: bytes | None) -> None:
    """Write a record, and return when the brokers have it.

    Raises:
        ClientError: it may be written or not.
    """
    columns: dict[str, Any] = {
        "key": pa.array([key], pa.binary()),
        "value": pa.array([value], pa.binary()),
    }
    writer.write(pa.table(columns))
    writer.flush()


def open_reader(settings: ClientSettings, topic: str, start: int | LogEdge) -> Reader | None:
    """Return a reader that follows a topic from `start` on; None if there is no such topic.

    Raises:
        ClientError: the cluster does not answer, or refuses.
    """
    try:
        return Reader(
            settings,
            {TopicPartition(topic, 0): ReadRange(start)},
            follow=True,
            columns=COLUMNS,
            max_bytes_in_flight=IN_FLIGHT_BYTES,
            reset=LogEdge.LATEST,
        )
    except BrokerError as error:
        if error.code is _MISSING:
            return None
        raise


def records_of(columns: pa.RecordBatch) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the records of a chunk: time in milliseconds, key, value."""
    times = columns.column("timestamp").cast(pa.int64()).to_pylist()
    keys, values = (columns.column(name).to_pylist() for name in ("key", "value"))
    return list(zip(times, keys, values, strict=True))
