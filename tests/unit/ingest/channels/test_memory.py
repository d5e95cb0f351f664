"""The memory channel: the contract, and what is its own."""

from threading import Thread

import pytest

from headrace.ingest.channel import Channel
from headrace.ingest.channels.memory import MemoryChannel
from headrace.ingest.error import ChannelClosed, ChannelFull
from headrace.ingest.event import EventBatch
from headrace.model.error import ConfigError
from headrace.testing.channel_contract import BoundedChannelContract, drain, fill
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import memory_channel


class TestMemoryChannel(BoundedChannelContract):
    @pytest.fixture
    def channel(self) -> Channel:
        return memory_channel(capacity="100", transactionCapacity="10")


def test_bytes_are_bounded_too() -> None:
    channel = memory_channel(byteCapacity="1000", byteCapacityBufferPercentage="0")
    fill(channel, [b"x" * 900])
    with pytest.raises(ChannelFull):
        fill(channel, [b"y" * 200])


def test_an_event_above_the_byte_bound_goes_through_alone() -> None:
    channel = memory_channel(byteCapacity="10")
    fill(channel, [b"x" * 500])
    assert drain(channel) == [b"x" * 500]


def test_a_batch_with_marks_is_not_taken_apart() -> None:
    channel = memory_channel()
    with channel.begin() as transaction:
        transaction.put(EventBatch([b"a", b"b", b"c"], [{}] * 3, {"file": "3"}))
    fill(channel, [b"d"])
    with channel.begin() as transaction:
        batch = transaction.take(2)
    assert (batch.bodies, batch.marks) == ([b"a", b"b", b"c"], {"file": "3"})


def test_an_interrupted_take_returns_at_once_without_events() -> None:
    channel = memory_channel(**{"keep-alive": "300"})
    taken: list[int] = []

    def take() -> None:
        with channel.begin() as transaction:
            taken.append(len(transaction.take(1)))

    thread = Thread(target=take)
    thread.start()
    channel.interrupt()
    thread.join(90)
    assert taken == [0]


def test_an_interrupted_put_raises_channel_closed() -> None:
    channel = memory_channel(capacity="1", transactionCapacity="1", **{"keep-alive": "300"})
    fill(channel, [b"full"])
    closed: list[bool] = []

    def put() -> None:
        try:
            fill(channel, [b"no room"])
        except ChannelClosed:
            closed.append(True)

    thread = Thread(target=put)
    thread.start()
    channel.interrupt()
    wait_until(lambda: closed == [True], what="the end of the wait")
    thread.join(90)


def test_a_transaction_larger_than_the_channel_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="transactionCapacity 200 is more than the capacity 100"):
        memory_channel(transactionCapacity="200")


def test_takes_from_before_a_clear_have_no_effect() -> None:
    channel = memory_channel()
    assert isinstance(channel, MemoryChannel)
    fill(channel, [b"1", b"2", b"3"])
    rolled_back, committed = channel.begin(), channel.begin()
    rolled_back.take(1)
    committed.take(1)
    channel.clear()
    rolled_back.rollback()
    committed.commit()
    assert channel.size == 0
    fill(channel, [b"4"])
    assert drain(channel) == [b"4"]


def test_marks_without_events_take_one_place() -> None:
    channel = memory_channel()
    marks = [{"a": "1"}, {"b": "1"}, {"a": "2"}]
    with channel.begin() as transaction:
        transaction.put(EventBatch([b"x"], [{}], marks[0]))
    for each in (*marks, *marks):
        with channel.begin() as transaction:
            transaction.put(EventBatch([], [], each))
    taken = []
    with channel.begin() as transaction:
        while (batch := transaction.take(10)).marks is not None:
            taken.append((batch.bodies, batch.marks))
    assert taken == [([b"x"], {"a": "1"}), ([], {"a": "2", "b": "1"})]
    assert taken[0][1] is marks[0]
