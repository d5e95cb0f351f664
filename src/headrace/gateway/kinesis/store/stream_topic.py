"""The topic that holds the streams: one record per stream, under its name.

Compacted; one partition, so that there is one order of all changes. The key `SEAL_NAME` holds the
key of iterators and page tokens instead of a stream: all instances must share it, and a client that
may read this topic may read the records as well. Records under `LEASE_NAME` are leases.
"""

import base64
import json
from typing import Any, Final

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.stream.stream_state import FORMAT, StreamState
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

STREAM_TOPIC: Final = "headrace.kinesis.streams"
STREAM_PARTITION: Final = TopicPartition(STREAM_TOPIC, 0)
SEAL_NAME: Final = "/seal"
"""No stream can have this name."""

ACCOUNT_NAME: Final = "/account"
"""The key of the account's settings, as JSON: a document. All keys with a slash are no streams."""

CHANNEL_PREFIX: Final = "/channel/"
"""Before a channel's name: the key of its document."""

LEASE_NAME: Final = "/lease"
"""The key of records that instances write only to read them back (`lease_writer`)."""

# A shard has some 230 bytes, and closed ones stay for the retention.
_MAX_RECORD_BYTES: Final = str(16 * 1024 * 1024)

# Only closed segments are compacted, and a new instance reads what is not: at two lease records
# per second and instance that is less than 200 KiB each.
_SEGMENT_MS: Final = str(10 * 60 * 1000)


def create_stream_topic(settings: ClientSettings) -> None:
    """Create the topic unless it exists.

    Raises:
        ClientError: the cluster refuses.
    """
    with ConnectionPool(settings) as pool:
        known = pool.metadata([STREAM_TOPIC]).topics.get(STREAM_TOPIC)
        if known is not None and known.error is None:
            return
        new = NewTopic(
            STREAM_TOPIC,
            1,
            configs={
                "cleanup.policy": "compact",
                "max.message.bytes": _MAX_RECORD_BYTES,
                "segment.ms": _SEGMENT_MS,
            },
        )
        error = Admin(pool).create_topics([new])[STREAM_TOPIC]
        if error is not None and error.code is not ErrorCode.topic_already_exists:
            raise error


def write_stream(stream: StreamState) -> bytes:
    """Return the value of a stream's record."""
    return json.dumps(stream.as_json(), separators=(",", ":")).encode()


def read_stream(value: bytes) -> StreamState:
    """Read a stream's record.

    Raises:
        ValueError: it is no stream, or one of a newer format.
    """
    try:
        return StreamState.from_json(json.loads(value))
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"no stream: {error!r}") from error


def write_seal_key(key: bytes) -> bytes:
    return json.dumps({"format": FORMAT, "key": base64.b64encode(key).decode()}).encode()


def read_seal_key(value: bytes) -> bytes:
    return base64.b64decode(json.loads(value)["key"])


def write_document(document: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, **document}, separators=(",", ":")).encode()


def read_document(value: bytes) -> dict[str, Any]:
    """Read a record that is no stream.

    Raises:
        ValueError: it is no JSON object, or one of a newer format.
    """
    document = json.loads(value)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError("no document of a known format")
    return document
