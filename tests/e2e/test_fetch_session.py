"""Fetches as a Java client sends them: long polls, byte limits, incremental sessions (KIP-227)."""

import threading
import time
from collections.abc import Iterator

import pytest

from headrace.records.batch import iter_batches
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.wire.fetch_response import FetchResponse
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

VERSION = 12
LONG_MS = 80_000
MIB = 1024 * 1024


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.address) as connected:
        yield connected


@pytest.fixture
def clicks(broker: BrokerProcess, topic: str) -> str:
    """A topic of three partitions."""
    with WireClient(broker.address) as admin:
        wanted = {"name": topic, "num_partitions": 3, "replication_factor": 1}
        answer = admin.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [wanted]})
        assert answer.topics[0].error_code == ErrorCode.none
    return topic


def fetch(
    topic: str,
    offsets: dict[int, int],
    *,
    session: int = 0,
    epoch: int = -1,
    forget: tuple[int, ...] = (),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * MIB,
    partition_bytes: int = MIB,
) -> FetchRequest:
    partitions = [
        FetchPartition(number, -1, offset, -1, -1, partition_bytes)
        for number, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        topics=[FetchTopic(topic, None, partitions)] if partitions else [],
        session_id=session,
        session_epoch=epoch,
        forgotten=[ForgottenTopic(topic, None, forget)] if forget else [],
    )


def found(answer: FetchResponse) -> dict[int, list[int]]:
    """The base offsets of the batches in an answer, by partition; what is left out is not there."""
    assert answer.error_code == ErrorCode.none
    return {
        partition.partition: [batch.base_offset for batch in iter_batches(partition.records or b"")]
        for topic in answer.topics
        for partition in topic.partitions
    }


def produce_later(broker: BrokerProcess, topic: str, records: bytes) -> threading.Thread:
    """Produce from another connection while this one waits."""

    def work() -> None:
        with WireClient(broker.address) as producer:
            producer.produce(topic, records)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


# -- waiting


def test_a_waiting_fetch_is_answered_when_a_record_comes(
    broker: BrokerProcess, client: WireClient, clicks: str
) -> None:
    started = time.monotonic()
    number = client.send_fetch(VERSION, fetch(clicks, {0: 0, 1: 0}, max_wait_ms=LONG_MS))
    produce_later(broker, clicks, sample_batch(b"a")).join()
    answer = client.receive(ApiKey.FETCH, VERSION, number)
    assert found(answer) == {0: [0], 1: []}
    assert time.monotonic() - started < LONG_MS / 1000 / 2


def test_a_waiting_fetch_is_answered_empty_when_its_time_is_up(
    client: WireClient, clicks: str
) -> None:
    answer = client.fetch(VERSION, fetch(clicks, {0: 0}, max_wait_ms=50))
    assert found(answer) == {0: []}


def test_a_fetch_waits_for_its_least_bytes(
    broker: BrokerProcess, client: WireClient, clicks: str
) -> None:
    batch = sample_batch(b"x" * 1000)
    request = fetch(clicks, {0: 0}, max_wait_ms=LONG_MS, min_bytes=2 * len(batch))
    number = client.send_fetch(VERSION, request)
    produce_later(broker, clicks, batch).join()
    produce_later(broker, clicks, batch).join()
    assert found(client.receive(ApiKey.FETCH, VERSION, number)) == {0: [0, 1]}


def test_a_waiting_fetch_hears_that_its_topic_was_deleted(
    broker: BrokerProcess, client: WireClient, clicks: str
) -> None:
    number = client.send_fetch(VERSION, fetch(clicks, {0: 0}, max_wait_ms=LONG_MS))
    with WireClient(broker.address) as admin:
        deleted = admin.ask(ApiKey.DELETE_TOPICS, 5, {"topic_names": [clicks]})
        assert deleted.responses[0].error_code == ErrorCode.none
    answer = client.receive(ApiKey.FETCH, VERSION, number)
    code = answer.topics[0].partitions[0].error_code
    assert code == ErrorCode.unknown_topic_or_partition


# -- limits


def test_a_first_batch_above_every_limit_is_delivered_whole(
    client: WireClient, clicks: str
) -> None:
    for partition in range(2):
        client.produce(clicks, sample_batch(b"x" * 100_000), partition)
    answer = client.fetch(VERSION, fetch(clicks, {0: 0, 1: 0}, max_bytes=10, partition_bytes=10))
    assert found(answer) == {0: [0], 1: []}


def test_an_offset_outside_the_log_is_an_error_of_its_partition(
    client: WireClient, clicks: str
) -> None:
    client.produce(clicks, sample_batch(b"a"), 1)
    answer = client.fetch(VERSION, fetch(clicks, {0: 7, 1: 0}, max_wait_ms=LONG_MS))
    codes = {each.partition: each.error_code for each in answer.topics[0].partitions}
    assert codes == {0: ErrorCode.offset_out_of_range, 1: ErrorCode.none}


# -- sessions


def opened(client: WireClient, topic: str, offsets: dict[int, int]) -> int:
    answer = client.fetch(VERSION, fetch(topic, offsets, epoch=0))
    assert answer.error_code == ErrorCode.none
    assert answer.session_id > 0
    return answer.session_id


def test_a_session_answers_only_about_what_is_new(client: WireClient, clicks: str) -> None:
    session = opened(client, clicks, {0: 0, 1: 0, 2: 0})
    quiet = client.fetch(VERSION, fetch(clicks, {}, session=session, epoch=1))
    assert found(quiet) == {}
    assert quiet.session_id == session
    client.produce(clicks, sample_batch(b"a"), 1)
    news = client.fetch(VERSION, fetch(clicks, {}, session=session, epoch=2))
    assert found(news) == {1: [0]}
    read = client.fetch(VERSION, fetch(clicks, {1: 1}, session=session, epoch=3))
    assert found(read) == {}


def test_a_session_waits_for_all_its_partitions(
    broker: BrokerProcess, client: WireClient, clicks: str
) -> None:
    session = opened(client, clicks, {0: 0, 2: 0})
    request = fetch(clicks, {}, session=session, epoch=1, max_wait_ms=LONG_MS)
    number = client.send_fetch(VERSION, request)
    produce_later(broker, clicks, sample_batch(b"a")).join()
    assert found(client.receive(ApiKey.FETCH, VERSION, number)) == {0: [0]}


def test_partitions_are_added_and_forgotten(client: WireClient, clicks: str) -> None:
    for partition in range(3):
        client.produce(clicks, sample_batch(b"a"), partition)
    session = opened(client, clicks, {0: 1, 1: 1})
    changed = fetch(clicks, {2: 0}, session=session, epoch=1, forget=(0,))
    assert found(client.fetch(VERSION, changed)) == {2: [0]}
    client.produce(clicks, sample_batch(b"b"), 0)
    client.produce(clicks, sample_batch(b"b"), 1)
    news = client.fetch(VERSION, fetch(clicks, {2: 1}, session=session, epoch=2))
    assert found(news) == {1: [1]}


def test_a_byte_limit_starves_no_partition_of_a_session(client: WireClient, clicks: str) -> None:
    for partition in range(3):
        client.produce(clicks, sample_batch(b"x" * 1000), partition)
        client.produce(clicks, sample_batch(b"x" * 1000), partition)
    first = client.fetch(VERSION, fetch(clicks, {0: 0, 1: 0, 2: 0}, epoch=0, max_bytes=10))
    session, served = first.session_id, set[int]()
    answer, offsets = first, {0: 0, 1: 0, 2: 0}
    for epoch in range(1, 4):
        read = {number for number, batches in found(answer).items() if batches}
        served |= read
        moved = {number: offsets[number] + 1 for number in read}
        offsets |= moved
        answer = client.fetch(
            VERSION, fetch(clicks, moved, session=session, epoch=epoch, max_bytes=10)
        )
    assert served == {0, 1, 2}


def test_a_lost_session_is_told_so_and_the_connection_stays(
    client: WireClient, clicks: str
) -> None:
    lost = client.fetch(VERSION, fetch(clicks, {}, session=12345, epoch=3))
    assert lost.error_code == ErrorCode.fetch_session_id_not_found
    session = opened(client, clicks, {0: 0})
    wrong = client.fetch(VERSION, fetch(clicks, {}, session=session, epoch=9))
    assert wrong.error_code == ErrorCode.invalid_fetch_session_epoch
    assert found(client.fetch(VERSION, fetch(clicks, {0: 0}))) == {0: []}


def test_a_closed_session_is_gone(client: WireClient, clicks: str) -> None:
    session = opened(client, clicks, {0: 0})
    assert client.fetch(VERSION, fetch(clicks, {}, session=session, epoch=-1)).session_id == 0
    after = client.fetch(VERSION, fetch(clicks, {}, session=session, epoch=1))
    assert after.error_code == ErrorCode.fetch_session_id_not_found
