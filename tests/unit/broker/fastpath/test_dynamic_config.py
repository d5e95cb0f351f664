"""A setting that changes while the broker runs holds on the fast path as on the slow path.

One table has a row for every setting of a topic. Each row is changed at each level (the topic, this
broker, all brokers) and taken back again. One partition is written through a fast path that was
learned before the change, its twin by the slow path; both must answer alike, and have the same
bytes in the same segments.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.fastpath.produce import FastProduceCache
from headrace.broker.handlers import produce
from headrace.broker.network.callback_future import CallbackFuture
from headrace.broker.network.connection import Connection
from headrace.broker.replica.partition import Partition
from headrace.broker.server import Server
from headrace.cluster import config_command
from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.broker_config import BROKER_CONFIG
from headrace.model.clock import ManualClock
from headrace.model.config import ConfigKey
from headrace.model.config_code import ConfigOperation
from headrace.model.error import HeadraceError
from headrace.model.ids import BrokerId
from headrace.model.table.table_config import TABLE_KEYS
from headrace.model.topic_config import SUBJECT_NAME_STRATEGIES, TOPIC_CONFIG
from headrace.testing.local_broker import local_broker
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import (
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    pack_produce_request,
)
from headrace.wire.produce_response import read_produce_response
from headrace.wire.request import parse_request
from testkit.sample.batch import sample_batch

VERSION = 11
BODY_AT = 9  # behind size, correlation id and no tags
FOLLOWER = BrokerId(9)
FAST, SLOW = 0, 1
TOPIC, BROKER, ALL_BROKERS = "topic", "broker", "all brokers"

Probe = Callable[[int], bytes]
"""Makes a batch, given what the broker's clock shows."""

Seen = tuple[ErrorCode, int, bool, int]
"""The code, the broker's time in the answer, whether it waits, and the bytes in the log."""


def plain(now_ms: int) -> bytes:
    return sample_batch(b"x" * 700, timestamp_ms=now_ms)


def keyless(now_ms: int) -> bytes:
    return sample_batch(b"x", keys=[None], timestamp_ms=now_ms)


def early(now_ms: int) -> bytes:
    return sample_batch(b"x", timestamp_ms=now_ms - 10_000)


def late(now_ms: int) -> bytes:
    return sample_batch(b"x", timestamp_ms=now_ms + 10_000)


@dataclass(frozen=True)
class Row:
    """A topic's setting, another value for it, and a batch that shows the difference.

    Attributes:
        shows: whether a produce request, or the bytes it leaves, tell the two values apart.
        own: other settings of the topic, without which the value would not matter.
    """

    key: str
    value: str
    probe: Probe = plain
    shows: bool = False
    own: tuple[tuple[str, str], ...] = ()


ROWS = [
    Row("cleanup.policy", "compact", keyless, shows=True),
    Row("compression.gzip.level", "1", shows=True, own=(("compression.type", "gzip"),)),
    Row("compression.lz4.level", "17", own=(("compression.type", "lz4"),)),
    Row("compression.type", "gzip", shows=True),
    Row("compression.zstd.level", "19", own=(("compression.type", "zstd"),)),
    # Without a registry such a topic takes nothing; with one see broker/schema.
    Row("confluent.key.schema.validation", "true", shows=True),
    Row("confluent.key.subject.name.strategy", SUBJECT_NAME_STRATEGIES[1]),
    Row("confluent.value.schema.validation", "true", shows=True),
    Row("confluent.value.subject.name.strategy", SUBJECT_NAME_STRATEGIES[2]),
    Row("delete.retention.ms", "1"),
    Row("file.delete.delay.ms", "1"),
    Row("flush.messages", "1", shows=True),
    Row("flush.ms", "1"),
    Row("follower.replication.throttled.replicas", "*"),
    Row("headrace.mirror.link", "east", shows=True),
    Row("headrace.mirror.state", "stopped"),
    Row("headrace.mirror.topic", "clicks"),
    Row("headrace.mirror.topic.id", "3fa85f64-5717-4562-b3fc-2c963f66afa6"),
    Row("index.interval.bytes", "0"),
    Row("leader.replication.throttled.replicas", "*"),
    Row("max.compaction.lag.ms", "1"),
    Row("max.message.bytes", "200", shows=True),
    Row("message.timestamp.after.max.ms", "5000", late, shows=True),
    Row("message.timestamp.before.max.ms", "5000", early, shows=True),
    Row("message.timestamp.type", "LogAppendTime", late, shows=True),
    Row("min.cleanable.dirty.ratio", "0.1"),
    Row("min.compaction.lag.ms", "1"),
    Row("min.insync.replicas", "2", shows=True),
    Row("preallocate", "true"),
    Row("retention.bytes", "1"),
    Row("retention.ms", "1"),
    Row("segment.bytes", "1024", shows=True),
    Row("segment.index.bytes", "16", shows=True, own=(("index.interval.bytes", "0"),)),
    Row("segment.jitter.ms", "1"),
    Row("segment.ms", "1", shows=True),
    Row("unclean.leader.election.enable", "true"),
]


class Twins:
    """Two partitions of one topic: one fast path, one slow path, and the same records."""

    def __init__(self, server: Server, clock: ManualClock, row: Row, folder: Path) -> None:
        self._broker = server.broker
        self._clock = clock
        self._row = row
        self._folder = folder
        self._paths = FastProduceCache(self._broker)
        self._fast, self._slow = (self._lead(index) for index in (FAST, SLOW))
        frame = self._frame(sample_batch(b"first"))
        self._end = self._paths.learn(frame, parse_request(frame))
        assert self._end

    def _lead(self, index: int) -> Partition:
        """Return a partition with a second replica, which is not in sync."""
        partition = self._broker.topics.find(self._row.key, None, index)
        assert partition is not None
        partition.state.set_replicas({partition.state.broker_id, FOLLOWER}, 0)
        partition.append(sample_batch(b"first", timestamp_ms=self._clock.wall_ms()))
        return partition

    def _frame(self, batch: bytes) -> bytes:
        rows = [ProducePartition(FAST, memoryview(batch))]
        request = ProduceRequest(None, -1, 30_000, [ProduceTopic(self._row.key, None, rows)])
        return b"".join(pack_produce_request(VERSION, 1, "me", request))[4:]

    async def write(self) -> tuple[list[object], int]:
        """Send the batch three times both ways, and return what can be seen of it."""
        begun = [len(each) for each in self._files()]
        seen: list[object] = []
        for _ in range(3):
            self._clock.advance(10)
            for each in (self._fast, self._slow):
                # A large segment is rolled only once the one before is synced, by a thread.
                each.log.flush()
            batch = self._row.probe(self._clock.wall_ms())
            fast, slow = await self._ask_fast(batch), await self._ask_slow(batch)
            assert fast == slow, self._row
            code, stamped_ms, waits, size = fast
            seen.append((code, stamped_ms >= 0, waits, size))
        fast_files, slow_files = self._files()
        assert fast_files == slow_files, self._row
        segments = len(fast_files) - begun[0]
        return seen, segments

    async def _ask_fast(self, batch: bytes) -> Seen:
        """As `Dispatch` does: by the fast path, or by the handler where that declines."""
        frame = self._frame(batch)
        path = self._paths.find(frame, self._end)
        assert path is not None
        answer = path.serve(frame)
        if answer is None:
            answer = cast(Any, self._handle(frame))
        at_once = not isinstance(answer, CallbackFuture | asyncio.Future)
        while not at_once and not answer.done():
            await asyncio.sleep(0)
        assert not (at_once and self._fast.syncs_before_answer)
        [content] = answer if at_once else answer.result()
        [topic] = read_produce_response(VERSION, memoryview(content), BODY_AT).topics
        result = topic.partitions[0]
        size = self._last_batch_bytes(self._fast) if not result.error_code else 0
        waits = not result.error_code and self._fast.waits_before_answer
        return ErrorCode(result.error_code), result.log_append_time_ms, waits, size

    def _handle(self, frame: bytes) -> object:
        return produce.handle(self._broker, Call(cast(Connection, None), parse_request(frame)))

    async def _ask_slow(self, batch: bytes) -> Seen:
        try:
            appended = self._slow.append(batch, acks_all=True)
        except HeadraceError as error:
            return code_of(error), -1, False, 0
        await self._broker.when_safe(self._slow, appended.last_offset + 1)
        size = self._last_batch_bytes(self._slow)
        waits = self._slow.waits_before_answer
        return ErrorCode.none, appended.log_append_time_ms, waits, size

    def _last_batch_bytes(self, partition: Partition) -> int:
        end = partition.log.log_end_offset
        return len(partition.log.read(end - 1, 1 << 20, max_offset=end).read())

    def _files(self) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """What lies in the two folders, segment by segment."""
        return self._content(FAST), self._content(SLOW)

    def _content(self, index: int) -> dict[str, bytes]:
        home = self._folder / f"{self._row.key}-{index}"
        return {each.name: each.read_bytes() for each in home.glob("*.log")}

    def value(self) -> object:
        """What the logs have as the row's setting."""
        attribute = self._row.key.replace(".", "_")
        values = {getattr(each.log.config, attribute) for each in (self._fast, self._slow)}
        [value] = values
        return value


async def change(server: Server, row: Row, level: str, operation: ConfigOperation) -> None:
    key = row.key if level == TOPIC else TOPIC_CONFIG[row.key].broker_default
    assert key is not None
    alterations = [ConfigAlteration(key, operation, row.value)]
    broker_id = server.broker.node_id if level == BROKER else None
    rejection = await server.broker.controller.administer(
        lambda controller: (
            controller.alter_topic_configs(row.key, alterations)
            if level == TOPIC
            else controller.alter_broker_configs(broker_id, alterations)
        )
    )
    assert rejection is None, rejection


def test_every_setting_of_a_topic_has_its_row() -> None:
    effective = [
        each.name
        for each in TOPIC_CONFIG
        # A broker keeps those of tables, and `headrace land` goes by them.
        if each.without_effect is None and not each.name.startswith(TABLE_KEYS)
    ]
    assert [row.key for row in ROWS] == sorted(effective)


@pytest.mark.parametrize("level", [TOPIC, BROKER, ALL_BROKERS])
def test_fast_and_slow_path_agree_after_a_change(
    tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No command makes a topic with records a mirror. The way back is open, so both paths follow.
    monkeypatch.setattr(config_command, "_MIRROR_LINK", "")

    async def main() -> None:
        clock = ManualClock()
        quiet = {"log.cleaner.enable": "false"}
        async with local_broker(tmp_path, quiet, clock) as server:
            for row in ROWS:
                if level != TOPIC and TOPIC_CONFIG[row.key].broker_default is None:
                    continue
                await server.broker.controller.create_topics(
                    [
                        TopicToCreate(
                            name=row.key, partitions=2, replication_factor=1, configs=dict(row.own)
                        )
                    ]
                )
                twins = Twins(server, clock, row, tmp_path)
                key = TOPIC_CONFIG[row.key]
                before, default = await twins.write(), twins.value()

                await change(server, row, level, ConfigOperation.SET)
                during, changed = await twins.write(), twins.value()
                await change(server, row, level, ConfigOperation.DELETE)
                after = await twins.write()

                assert changed == key.parse(row.value) != default, row
                assert twins.value() == default, row
                assert (during != before) == row.shows, (row, before, during)
                assert after[0] == before[0], row

    asyncio.run(main())


def may_differ(key: ConfigKey) -> bool:
    """Whether the key has an effect, and more than one value."""
    return key.without_effect is None and (key.minimum is None or key.minimum != key.maximum)


def test_every_other_setting_that_may_change_is_read_again(tmp_path: Path) -> None:
    """What the parts of the broker go by, after a change and after it was taken back."""

    def reads(server: Server) -> dict[str, Callable[[], object]]:
        broker, limits = server.broker, server.acceptor
        worker = cast(Any, server._compaction)
        return {
            "default.replication.factor": lambda: broker.settings.default_replication_factor,
            "follower.replication.throttled.rate": lambda: broker.settings[
                "follower.replication.throttled.rate"
            ],
            "headrace.producer.id.lowest": lambda: cast(Any, broker.producer_ids)._lowest(),
            "leader.replication.throttled.rate": lambda: cast(Any, broker.leader_throttle)._limit(),
            "log.cleaner.backoff.ms": lambda: broker.settings["log.cleaner.backoff.ms"],
            "log.cleaner.dedupe.buffer.size": lambda: worker._memory_bytes,
            "log.cleaner.io.max.bytes.per.second": lambda: worker._bytes_per_second,
            "max.connections": lambda: limits.limits.max_connections,
            "max.connections.per.ip": lambda: limits.limits.max_connections_per_host,
            "num.partitions": lambda: broker.settings.num_partitions,
            "num.recovery.threads.per.data.dir": lambda: broker.settings[
                "num.recovery.threads.per.data.dir"
            ],
            "producer.id.expiration.ms": lambda: broker.settings["producer.id.expiration.ms"],
            "replica.alter.log.dirs.io.max.bytes.per.second": lambda: broker.settings[
                "replica.alter.log.dirs.io.max.bytes.per.second"
            ],
        }

    values = {"log.cleaner.dedupe.buffer.size": "2097152"}

    async def main() -> None:
        async with local_broker(tmp_path) as server:
            parts = reads(server)
            defaults = {each.broker_default for each in TOPIC_CONFIG}
            dynamic = {key.name for key in BROKER_CONFIG if key.dynamic and may_differ(key)}
            assert dynamic - defaults == parts.keys()
            for name, read in parts.items():
                for broker_id in (None, server.broker.node_id):
                    before = read()
                    wanted = BROKER_CONFIG[name].parse(values.get(name, "3"))
                    for operation, expected in (
                        (ConfigOperation.SET, wanted),
                        (ConfigOperation.DELETE, before),
                    ):
                        alteration = ConfigAlteration(name, operation, values.get(name, "3"))
                        await server.broker.controller.administer(
                            lambda controller, broker_id=broker_id, alteration=alteration: (
                                controller.alter_broker_configs(broker_id, [alteration])
                            )
                        )
                        assert read() == expected, (name, operation)

    asyncio.run(main())
