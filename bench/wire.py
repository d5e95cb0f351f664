"""What the protocol costs per request, against kio's own readers and writers.

One request of 6 partitions, as a producer or consumer of one topic sends them. kio's reader is
native code but copies the records out of a Produce request, so that side grows with the batches;
ours does not. The Metadata row holds what our check costs in front of kio's reader.
"""

import io
import time
from collections.abc import Callable
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from bench.row import Row, alternate, median, spread
from headrace.wire.api import ApiKey
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic, pack_fetch_request
from headrace.wire.fetch_response import (
    FetchPartitionResult,
    FetchTopicResult,
    pack_fetch_response,
)
from headrace.wire.framing import BufferPool, FrameSplitter
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.produce_response import (
    ProducePartitionResult,
    ProduceTopicResult,
    pack_produce_response,
)
from headrace.wire.request import pack_request, parse_request
from headrace.wire.response import pack_response, parse_response

PARTITIONS = 6
BATCH_BYTES = 16 * 1024
CALLS = 2000

Bar = tuple[Callable[[float], float], str]
"""The most we may take, given kio's time, and how the table says it."""


def run() -> list[Row]:
    return [
        _produce_request(BATCH_BYTES),
        _produce_request(10 * BATCH_BYTES),
        _produce_response(),
        _fetch_request(),
        _fetch_response(),
        _metadata_request(),
        _metadata_response(),
        _small_frames(),
    ]


def _compare(name: str, bar: Bar, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Row:
    """Microseconds a call on both sides."""
    our_rounds, their_rounds = alternate(lambda: _microseconds(ours), lambda: _microseconds(theirs))
    mine, kios = median(our_rounds), median(their_rounds)
    allowed, text = bar
    return Row(
        name=name,
        ours=mine,
        theirs=kios,
        unit="µs",
        spread=spread(our_rounds),
        bar=text,
        reached=mine <= allowed(kios),
    )


def _of_kio(share: float) -> Bar:
    return lambda kios: share * kios, f"at most {share}× of kio's time"


def _each(microseconds: float) -> Bar:
    return lambda _: microseconds * PARTITIONS, f"at most {microseconds} µs a partition"


def _microseconds(call: Callable[[], Any]) -> float:
    """CPU time: these calls wait for nothing, and a busy neighbour must not count."""
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS * 1e6


def _kio_writer(entity: Any) -> Callable[[], bytes]:
    write = entity_writer(type(entity))

    def packed() -> bytes:
        out = io.BytesIO()
        write(out, entity)
        return out.getvalue()

    return packed


def _produce_request(batch_bytes: int) -> Row:
    records = memoryview(b"r" * batch_bytes)
    partitions = [ProducePartition(index, records) for index in range(PARTITIONS)]
    request = ProduceRequest(None, 1, 30_000, [ProduceTopic("clicks", None, partitions)])
    frame = b"".join(pack_produce_request(10, 1, "bench", request))[4:]
    at = 8 + 2 + len("bench") + 1
    read = entity_reader(load_request_schema(ApiKey.PRODUCE, 10))
    return _compare(
        f"read a Produce request (header too), 6 x {batch_bytes // 1024} KiB",
        _each(2),
        lambda: parse_request(frame).body,
        lambda: read(frame, at),
    )


def _produce_response() -> Row:
    results = [ProducePartitionResult(index, 0, 1234, -1, 0) for index in range(PARTITIONS)]
    topics = [ProduceTopicResult("clicks", None, results)]
    packed = pack_produce_response(10, 1, topics)
    entity, _ = entity_reader(load_response_schema(ApiKey.PRODUCE, 10))(packed, 9)
    return _compare(
        "pack a Produce response, 6 partitions",
        _of_kio(0.2),
        lambda: pack_produce_response(10, 1, topics),
        _kio_writer(entity),
    )


def _fetch_request() -> Row:
    partitions = [FetchPartition(index, 3, 1234, -1, -1, 1 << 20) for index in range(PARTITIONS)]
    topics = [FetchTopic("clicks", None, partitions)]
    frame = pack_fetch_request(12, 1, "bench", FetchRequest(500, 1, 1 << 20, 0, topics))[4:]
    at = 8 + 2 + len("bench") + 1
    read = entity_reader(load_request_schema(ApiKey.FETCH, 12))
    return _compare(
        "read a Fetch request (header too), 6 partitions",
        _each(2),
        lambda: parse_request(frame).body,
        lambda: read(frame, at),
    )


def _fetch_response() -> Row:
    def topics(records: Any) -> list[FetchTopicResult[Any]]:
        results = [
            FetchPartitionResult(index, 0, 99, 99, 0, BATCH_BYTES, records)
            for index in range(PARTITIONS)
        ]
        return [FetchTopicResult("clicks", None, results)]

    file_slice = object()
    ours = topics(file_slice)
    whole = b"".join(pack_fetch_response(12, 1, topics(b"r" * BATCH_BYTES)))
    entity, _ = entity_reader(load_response_schema(ApiKey.FETCH, 12))(whole, 9)
    return _compare(
        "pack a Fetch response, 6 x 16 KiB",
        _each(2),
        lambda: pack_fetch_response(12, 1, ours),
        _kio_writer(entity),
    )


def _metadata_request() -> Row:
    body = {"topics": [{"name": f"topic-{number}"} for number in range(10)]}
    frame = pack_request(ApiKey.METADATA, 12, 1, "bench", body)[4:]
    at = 8 + 2 + len("bench") + 1
    read = entity_reader(load_request_schema(ApiKey.METADATA, 12))
    return _compare(
        "read and check a Metadata request, 10 topics",
        _of_kio(8),
        lambda: parse_request(frame).body,
        lambda: read(frame, at),
    )


def _metadata_response() -> Row:
    partition = {"leader_id": 1, "leader_epoch": 3, "replica_nodes": [1], "isr_nodes": [1]}
    body = {
        "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092}],
        "topics": [
            {
                "name": f"topic-{number}",
                "partitions": [{"partition_index": index, **partition} for index in range(6)],
            }
            for number in range(10)
        ],
    }
    packed = pack_response(ApiKey.METADATA, 12, 1, body)
    _, entity = parse_response(ApiKey.METADATA, 12, packed[4:])
    return _compare(
        "pack a Metadata response, 10 topics x 6 partitions",
        _of_kio(0.5),
        lambda: pack_response(ApiKey.METADATA, 12, 1, body),
        _kio_writer(entity),
    )


def _small_frames() -> Row:
    """A read that holds 50 pipelined requests of 200 bytes, cut into frames."""
    count = 50
    stream = (b"\x00\x00\x00\xc8" + b"x" * 200) * count
    splitter = FrameSplitter(BufferPool())

    def cut() -> None:
        splitter.get_buffer()[: len(stream)] = stream
        splitter.buffer_updated(len(stream))

    rounds = [_microseconds(cut) / count for _ in range(5)]
    return Row(
        name="cut one 200-byte frame out of 50 in a read",
        ours=median(rounds),
        unit="µs",
        spread=spread(rounds),
        bar="at most 1 µs",
        reached=median(rounds) <= 1,
    )
