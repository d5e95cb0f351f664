"""Produced records that a topic refuses by name, and batches that it opens off the event loop."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.broker.server import Server
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.partition.partition_log import PartitionLog
from headrace.records.batch import Batch, build_head, iter_batches
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_response import ProducePartitionResult
from testkit.process.wire_client import WireClient
from testkit.sample.batch import SAMPLE_TIME_MS, sample_batch

Scenario = Callable[[WireClient, Server], None]


def run(data: Path, configs: dict[str, str], scenario: Scenario) -> None:
    """Run a scenario, in a thread, against a broker that has the topic t with these settings."""

    async def main() -> None:
        async with local_broker(data) as server:
            topic = TopicToCreate(name="t", partitions=1, configs=configs)
            await server.broker.controller.create_topics([topic])

            def act() -> None:
                with WireClient(f"127.0.0.1:{server.listeners[0].port}") as client:
                    scenario(client, server)

            await asyncio.to_thread(act)

    asyncio.run(main())


def request(*records: bytes, acks: int = -1) -> dict[str, Any]:
    partitions = [{"index": 0, "records": batch} for batch in records]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 10_000,
        "topic_data": [{"name": "t", "partition_data": partitions}],
    }


def answer_of(client: WireClient, batch: bytes) -> ProducePartitionResult:
    return result_of(client.ask(ApiKey.PRODUCE, 11, request(batch)))


def result_of(answer: Any) -> ProducePartitionResult:
    result: ProducePartitionResult = answer.topics[0].partitions[0]
    return result


def packed(codec: Codec, batch: bytes) -> bytes:
    return bytes(recompressed(Batch(batch), codec, None, max_inflated_bytes=2**27).data)


def log_of(server: Server) -> PartitionLog:
    partition = server.broker.topics.find("t", None, 0)
    assert partition is not None
    return partition.log


def test_records_without_a_key_are_named_in_the_answer(tmp_path: Path) -> None:
    def scenario(client: WireClient, server: Server) -> None:
        for codec in (Codec.NONE, Codec.ZSTD):
            batch = sample_batch(b"a", b"b", b"c", keys=[b"k", None, None])
            answer = answer_of(client, packed(codec, batch))
            assert answer.error_code == ErrorCode.invalid_record
            assert [each.batch_index for each in answer.record_errors] == [1, 2]
            assert "no key" in (answer.record_errors[0].message or "")
            assert "no key" in (answer.error_message or "")
        assert answer_of(client, sample_batch(b"a")).error_code == ErrorCode.none

    run(tmp_path, {"cleanup.policy": "compact"}, scenario)


def test_records_from_the_future_are_named_in_the_answer(tmp_path: Path) -> None:
    def scenario(client: WireClient, server: Server) -> None:
        now_ms = int(time.time() * 1000)
        for codec in (Codec.NONE, Codec.LZ4):
            batch = sample_batch(b"a", b"b", timestamp_ms=now_ms, step_ms=100_000_000)
            answer = answer_of(client, packed(codec, batch))
            assert answer.error_code == ErrorCode.invalid_timestamp
            assert [each.batch_index for each in answer.record_errors] == [1]

    run(tmp_path, {}, scenario)


def test_garbage_is_refused_after_sound_batches_too(tmp_path: Path) -> None:
    """The second request of a shape goes the fast path."""

    def scenario(client: WireClient, server: Server) -> None:
        rows = b"\xff" * 24
        head = build_head(
            rows,
            last_offset_delta=2**31 - 2,
            record_count=2**31 - 1,
            base_timestamp=SAMPLE_TIME_MS,
            max_timestamp=SAMPLE_TIME_MS,
        )
        for _ in range(3):
            assert answer_of(client, sample_batch(b"a")).error_code == ErrorCode.none
            assert answer_of(client, head + rows).error_code == ErrorCode.invalid_record
        log = log_of(server)
        assert (log.log_end_offset, len(log.segments)) == (3, 1)

    run(tmp_path, {}, scenario)


def longest_stop_ms(server: Server, act: Callable[[], object]) -> float:
    """Return for how long the broker's event loop did not run, at most, while `act` did."""
    stops: list[float] = []
    done = asyncio.Event()
    begun = threading.Event()

    async def watch() -> None:
        before = time.perf_counter()
        begun.set()
        while not done.is_set():
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            stops.append(now - before)
            before = now

    loop = server.broker.loop
    watching = asyncio.run_coroutine_threadsafe(watch(), loop)
    assert begun.wait(90)
    try:
        act()
    finally:
        loop.call_soon_threadsafe(done.set)
        watching.result(60)
    return max(stops) * 1000


def test_a_bomb_does_not_stop_the_event_loop(tmp_path: Path) -> None:
    """3 KB of zstd that are 30 MB of zeros: opening and packing them takes hundreds of ms."""

    def scenario(client: WireClient, server: Server) -> None:
        rows = memoryview(sample_batch(bytes(30_000_000)))
        bomb = packed(Codec.ZSTD, bytes(rows))
        assert len(bomb) < 10_000
        assert answer_of(client, packed(Codec.ZSTD, sample_batch(b"first"))).error_code == 0
        opened_ms: list[float] = []

        def act() -> None:
            start = time.perf_counter()
            answer = answer_of(client, bomb)
            opened_ms.append((time.perf_counter() - start) * 1000)
            assert answer.error_code in (ErrorCode.none, ErrorCode.message_too_large)

        def is_free() -> bool:
            # Whatever this machine needs for the work, the loop does not wait for most of it.
            opened_ms.clear()
            stopped_ms = longest_stop_ms(server, act)
            return stopped_ms < max(opened_ms[0] / 2, 20)

        # Other processes may stop the loop, but not each time.
        assert any(is_free() for _ in range(8))

    run(tmp_path, {"cleanup.policy": "compact", "compression.type": "gzip"}, scenario)


def test_batches_are_appended_in_order_however_long_each_takes(tmp_path: Path) -> None:
    def scenario(client: WireClient, server: Server) -> None:
        large, small = sample_batch(bytes(900_000)), sample_batch(b"small")
        sent = [
            client.send(ApiKey.PRODUCE, 11, request(large if number % 2 == 0 else small))
            for number in range(6)
        ]
        bases = [
            result_of(client.receive(ApiKey.PRODUCE, 11, number)).base_offset for number in sent
        ]
        assert bases == list(range(6))
        stored = log_of(server)
        batches = list(iter_batches(stored.read(0, 2**20).read()))
        assert {batch.compression for batch in batches} == {Codec.ZSTD}
        sizes = [batch.size_bytes for batch in batches]
        assert sizes[0] == sizes[2] != sizes[1] == sizes[3]

    run(tmp_path, {"compression.type": "zstd", "compression.zstd.level": "15"}, scenario)


def test_acks_0_to_a_topic_that_opens_batches_is_appended(tmp_path: Path) -> None:
    def scenario(client: WireClient, server: Server) -> None:
        client.send(ApiKey.PRODUCE, 11, request(sample_batch(b"a"), acks=0))
        assert answer_of(client, sample_batch(b"b")).base_offset == 1

    run(tmp_path, {"compression.type": "zstd"}, scenario)
