"""Long keys, and many, are hashed in a thread, and choose the partitions they always do."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.client.write.partitioner import partition_of
from headrace.gateway.rest.exchange import Exchange
from headrace.gateway.rest.produce import key_work
from headrace.gateway.rest.produce.producer import TopicLeaders
from headrace.gateway.rest.produce.record import Record

LEADERS = TopicLeaders(4, dict.fromkeys(range(4), 1), until=float("inf"))
LONG = Record(bytes(1 << 16), b"v")


def test_a_thread_hashes_long_keys_and_many(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(key: bytes, total: int) -> int:
        threads.append(threading.current_thread())
        return partition_of(key, total)

    monkeypatch.setattr(key_work, "partition_of", noted)
    puts: list[list[Record]] = []

    async def scenario() -> None:
        with ThreadPoolExecutor(1) as parsers:
            producer = SimpleNamespace(put=lambda _, __, records: puts.append(records))
            services = SimpleNamespace(producer=producer, parsers=parsers)
            none = cast(Any, None)
            exchange = Exchange(none, cast(Any, services), none, none, none, none)
            short = [Record(b"k", b"v"), LONG._replace(partition=1)]
            await exchange.put("t", LEADERS, short)
            assert puts.pop() is short
            await exchange.put("t", LEADERS, [*short, LONG, Record(None, b"v")])
            await exchange.put("t", LEADERS, [Record(b"k", b"v")] * (key_work.QUICK_KEYS + 1))

    asyncio.run(scenario())
    records, many = puts
    expected = [partition_of(b"k", 4), 1, partition_of(bytes(1 << 16), 4), None]
    assert [each.partition for each in records] == expected
    assert {each.partition for each in many} == {partition_of(b"k", 4)}
    assert len(threads) == 2 + len(many)
    assert threading.main_thread() not in threads
