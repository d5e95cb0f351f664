"""The spillable channel: memory first, then disk."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.ingest.channel import Channel
from headrace.ingest.channels.spillable import SpillableChannel
from headrace.ingest.error import ChannelFull
from headrace.testing.channel_contract import ChannelContract, drain, fill
from testkit.sample.ingest_agent import make


def spillable(folder: Path, **texts: str) -> SpillableChannel:
    written = {
        "dataDirs": str(folder),
        "minimumRequiredSpace": "0",
        "memoryCapacity": "20",
        "overflowCapacity": "80",
        "overflowTimeout": "0",
        "transactionCapacity": "10",
        "keep-alive": "0",
        **texts,
    }
    channel = make("channel", "SPILLABLEMEMORY", written)
    assert isinstance(channel, SpillableChannel)
    channel.start()
    return channel


class TestSpillableChannel(ChannelContract):
    @pytest.fixture
    def channel(self, tmp_path: Path) -> Iterator[Channel]:
        channel = spillable(tmp_path)
        yield channel
        channel.stop()


def test_what_does_not_fit_in_memory_goes_to_disk_and_comes_in_order(tmp_path: Path) -> None:
    channel = spillable(tmp_path)
    for number in range(5):
        fill(channel, [b"%d" % number] * 10)
    assert (channel.memory.size, channel.disk.size) == (20, 30)
    assert drain(channel) == [b"%d" % number for number in range(5) for _ in range(10)]
    channel.stop()


def test_what_is_on_disk_survives_a_restart(tmp_path: Path) -> None:
    channel = spillable(tmp_path, memoryCapacity="0")
    fill(channel, [b"safe"])
    channel.stop()
    channel = spillable(tmp_path)
    assert drain(channel) == [b"safe"]
    channel.stop()


def test_without_an_overflow_it_is_a_memory_channel(tmp_path: Path) -> None:
    channel = spillable(tmp_path, overflowCapacity="0")
    fill(channel, [b"1"] * 10)
    fill(channel, [b"2"] * 10)
    with pytest.raises(ChannelFull):
        fill(channel, [b"3"])
    assert channel.disk.size == 0
    channel.stop()


def test_without_memory_a_taker_waits_for_the_disk(tmp_path: Path) -> None:
    """The take does not wait for the memory, which never gets an event."""
    channel = spillable(
        tmp_path, memoryCapacity="0", overflowTimeout="3600", **{"keep-alive": "3600"}
    )
    with ThreadPoolExecutor(1) as thread:
        taken = thread.submit(take_one, channel)
        fill(channel, [b"there"])
        assert taken.result(60) == [b"there"]
    channel.stop()


def take_one(channel: SpillableChannel) -> list[bytes]:
    with channel.begin() as transaction:
        return transaction.take(1).bodies
