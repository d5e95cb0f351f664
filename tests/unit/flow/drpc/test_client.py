"""A client during and after an outage of its brokers; a few lines stand for the topics."""

import time
from collections.abc import Callable, Iterator
from queue import Empty, Queue
from typing import Any

import pyarrow as pa
import pytest

from headrace.client.error import ClientError
from headrace.client.read.chunk import Chunk
from headrace.flow.drpc import client as drpc_client
from headrace.flow.drpc.client import DrpcClient
from headrace.flow.drpc.function_topics import DrpcError, FunctionTopics
from headrace.model.ids import TopicPartition

_REPLIES = TopicPartition(FunctionTopics("exclaim").replies, 0)


class Topics:
    """Topics whose every request is replied to at once, unless there is an outage."""

    def __init__(self) -> None:
        self.outage = False
        self.replies: Queue[Chunk] = Queue()
        self.readers = 0

    def check(self) -> None:
        if self.outage:
            raise ClientError("no broker answers")

    def of_topics(self, *_: Any, **__: Any) -> "Topics":
        self.check()
        self.readers += 1
        return self

    def poll(self, seconds: float) -> Chunk | None:
        self.check()
        try:
            return self.replies.get(timeout=0.01)
        except Empty:
            return None

    def writer(self, *_: Any, **__: Any) -> "Topics":
        self.check()
        return self

    def write(self, table: pa.Table) -> None:
        self.check()
        rows = table.to_pylist()
        columns = pa.record_batch(
            {
                "key": pa.array([each["key"].encode() for each in rows], pa.binary()),
                "value": pa.array([f"{each['value']}!".encode() for each in rows], pa.binary()),
            }
        )
        self.replies.put(Chunk(_REPLIES, columns, 0))

    def flush(self) -> None:
        self.check()

    def abandon(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    topics = Topics()
    monkeypatch.setattr(drpc_client, "Reader", topics)
    monkeypatch.setattr(drpc_client, "Writer", topics.writer)
    monkeypatch.setattr(drpc_client, "_FIRST_PAUSE_SECONDS", 0.01)
    return topics


@pytest.fixture
def client(topics: Topics) -> Iterator[DrpcClient]:
    with DrpcClient("exclaim", brokers="b:9092") as made:
        yield made


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def answers(client: DrpcClient) -> bool:
    try:
        return client.execute("hey", timeout_seconds=0.5) == "hey!"
    except DrpcError:
        return False


def test_calls_are_answered_again_after_an_outage(topics: Topics, client: DrpcClient) -> None:
    assert client.execute("hey", timeout_seconds=30) == "hey!"
    topics.outage = True
    wait_until(lambda: not answers(client))

    topics.outage = False

    wait_until(lambda: answers(client))


def test_a_dead_letter_that_is_none_of_ours_ends_nothing(
    topics: Topics, client: DrpcClient
) -> None:
    failures = TopicPartition(FunctionTopics("exclaim").failures, 0)
    noise = [None, b"", b"\xff", b"[]", b'{"request": 1}', b"[" * 30_000]
    columns = {"key": pa.nulls(len(noise), pa.binary()), "value": pa.array(noise, pa.binary())}
    topics.replies.put(Chunk(failures, pa.record_batch(columns), 0))

    assert client.execute("hey", timeout_seconds=30) == "hey!"


def test_calls_during_an_outage_are_refused_at_once(topics: Topics, client: DrpcClient) -> None:
    topics.outage = True

    def refused() -> bool:
        try:
            client.execute("hey", timeout_seconds=0.2)
        except DrpcError as error:
            return "exclaim cannot be reached: no broker answers" in str(error)
        return False

    wait_until(refused)


def test_a_client_closes_in_the_middle_of_an_outage(topics: Topics) -> None:
    with DrpcClient("exclaim", brokers="b:9092") as client:
        topics.outage = True
        wait_until(lambda: not answers(client))
