"""The hand-written messages against kafka-python, which compiles Kafka's own definitions."""

import warnings
from typing import Any
from uuid import UUID

import pytest

from headrace.wire.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    pack_fetch_request,
)
from headrace.wire.fetch_response import (
    AbortedTransaction,
    FetchPartitionResult,
    FetchTopicResult,
    pack_fetch_response,
)
from headrace.wire.leader import LeaderHint, NodeEndpoint
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.produce_response import (
    ProducePartitionResult,
    ProduceTopicResult,
    RecordError,
    pack_produce_response,
)
from headrace.wire.request import parse_request

with warnings.catch_warnings():
    # It reads its definitions through a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer import FetchRequest as TheirFetchRequest
    from kafka.protocol.consumer import FetchResponse as TheirFetchResponse
    from kafka.protocol.producer import ProduceRequest as TheirProduceRequest
    from kafka.protocol.producer import ProduceResponse as TheirProduceResponse

TOPIC_ID = UUID("0b5e8f2a-7d3c-4e1f-9a6b-5c4d3e2f1a0b")

produce_versions = pytest.mark.parametrize("version", range(3, 14))
fetch_versions = pytest.mark.parametrize("version", range(4, 19))


def name_or_id(version: int) -> tuple[str | None, UUID | None]:
    return (None, TOPIC_ID) if version >= 13 else ("clicks", None)


def produce_request(version: int) -> ProduceRequest:
    records = [ProducePartition(0, memoryview(b"x" * 200)), ProducePartition(7, None)]
    return ProduceRequest("pay", -1, 30_000, [ProduceTopic(*name_or_id(version), records)])


def fetch_request(version: int) -> FetchRequest:
    partition = FetchPartition(
        3,
        5 if version >= 9 else -1,
        1234,
        4 if version >= 12 else -1,
        10 if version >= 5 else -1,
        65536,
    )
    return FetchRequest(
        500,
        1,
        1 << 20,
        1,
        [FetchTopic(*name_or_id(version), [partition])],
        77 if version >= 7 else 0,
        2 if version >= 7 else -1,
        [ForgottenTopic(*name_or_id(version), (8, 9))] if version >= 7 else [],
        "rack-1" if version >= 11 else "",
        1001,
        6 if version >= 15 else -1,
        "cluster" if version >= 12 else None,
    )


def topic_field(version: int, name: str) -> dict[str, Any]:
    return {"topic_id": TOPIC_ID} if version >= 13 else {name: "clicks"}


@produce_versions
def test_we_read_their_produce_request(version: int) -> None:
    topic = TheirProduceRequest.TopicProduceData
    theirs = TheirProduceRequest(
        version=version,
        transactional_id="pay",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            topic(
                version=version,
                partition_data=[
                    topic.PartitionProduceData(version=version, index=0, records=b"x" * 200),
                    topic.PartitionProduceData(version=version, index=7, records=None),
                ],
                **topic_field(version, "name"),
            )
        ],
    )
    theirs.with_header(correlation_id=11, client_id="them")

    request = parse_request(bytes(theirs.encode(header=True)))

    assert (request.header.correlation_id, request.header.client_id) == (11, "them")
    assert request.body == produce_request(version)


@produce_versions
def test_they_read_our_produce_request(version: int) -> None:
    frame = b"".join(pack_produce_request(version, 11, "us", produce_request(version)))

    theirs = TheirProduceRequest.decode(frame, version=version, header=True, framed=True)

    assert theirs.header.client_id == "us"
    assert (theirs.transactional_id, theirs.acks, theirs.timeout_ms) == ("pay", -1, 30_000)
    (topic,) = theirs.topic_data
    assert [p.index for p in topic.partition_data] == [0, 7]
    assert bytes(topic.partition_data[0].records) == b"x" * 200
    assert topic.partition_data[1].records is None


@produce_versions
def test_they_read_our_produce_response(version: int) -> None:
    failed = ProducePartitionResult(
        1, 6, -1, -1, 2, (RecordError(4, "no key"),), "not here", LeaderHint(3, 9)
    )
    good = ProducePartitionResult(0, 0, 1234, 1_700_000_000_123, 2)
    frame = pack_produce_response(
        version,
        11,
        [ProduceTopicResult(*name_or_id(version), [good, failed])],
        throttle_ms=5,
        node_endpoints=[NodeEndpoint(3, "b3", 9092, "r")],
    )

    theirs = TheirProduceResponse.decode(frame, version=version, header=True, framed=True)

    assert theirs.header.correlation_id == 11
    assert theirs.throttle_time_ms == 5
    first, second = theirs.responses[0].partition_responses
    assert (first.index, first.error_code, first.base_offset) == (0, 0, 1234)
    assert first.log_append_time_ms == 1_700_000_000_123
    assert second.error_code == 6
    if version >= 5:
        assert first.log_start_offset == 2
    if version >= 8:
        assert second.error_message == "not here"
        assert second.record_errors[0].batch_index == 4
    if version >= 10:
        assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (3, 9)
        assert (theirs.node_endpoints[0].host, theirs.node_endpoints[0].rack) == ("b3", "r")


@fetch_versions
def test_we_read_their_fetch_request(version: int) -> None:
    frame = pack_fetch_request(version, 11, "us", fetch_request(version))
    theirs = TheirFetchRequest.decode(frame, version=version, header=True, framed=True)
    theirs.with_header(correlation_id=12, client_id="them")

    request = parse_request(bytes(theirs.encode(version=version, header=True)))

    assert request.header.client_id == "them"
    assert request.body == fetch_request(version)


@fetch_versions
def test_they_read_our_fetch_request(version: int) -> None:
    frame = pack_fetch_request(version, 11, "us", fetch_request(version))

    theirs = TheirFetchRequest.decode(frame, version=version, header=True, framed=True)

    assert (theirs.max_wait_ms, theirs.min_bytes, theirs.max_bytes) == (500, 1, 1 << 20)
    (partition,) = theirs.topics[0].partitions
    assert (partition.partition, partition.fetch_offset) == (3, 1234)
    assert partition.partition_max_bytes == 65536
    if version >= 7:
        assert list(theirs.forgotten_topics_data[0].partitions) == [8, 9]
    if version >= 11:
        assert theirs.rack_id == "rack-1"
    if version >= 15:
        assert theirs.replica_state.replica_epoch == 6
    else:
        assert theirs.replica_id == 1001


@fetch_versions
def test_they_read_our_fetch_response(version: int) -> None:
    full = FetchPartitionResult(
        0,
        high_watermark=50,
        last_stable_offset=40,
        log_start_offset=3,
        records_bytes=300,
        records=b"r" * 300,
        aborted=[AbortedTransaction(9, 11)],
        preferred_read_replica=4,
    )
    moved: FetchPartitionResult[bytes] = FetchPartitionResult(1, 6, leader=LeaderHint(3, 9))
    parts = pack_fetch_response(
        version,
        11,
        [FetchTopicResult(*name_or_id(version), [full, moved])],
        throttle_ms=5,
        session_id=77,
        node_endpoints=[NodeEndpoint(3, "b3", 9092)],
    )

    theirs = TheirFetchResponse.decode(b"".join(parts), version=version, header=True, framed=True)

    first, second = theirs.responses[0].partitions
    assert (first.high_watermark, first.last_stable_offset) == (50, 40)
    assert bytes(first.records) == b"r" * 300
    assert (first.aborted_transactions[0].producer_id, second.error_code) == (9, 6)
    if version >= 7:
        assert theirs.session_id == 77
    if version >= 11:
        assert first.preferred_read_replica == 4
    if version >= 12:
        assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (3, 9)
    if version >= 16:
        assert theirs.node_endpoints[0].port == 9092
