"""Offsets against a plain model, with transactions, failed appends, deletions and restarts."""

import random
from uuid import UUID

import pytest

from headrace.groups.effect import Producer
from headrace.groups.offset.message import CommitRequest, OffsetToCommit
from headrace.groups.offset.store import OffsetStore
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from testkit.simulation.group_shard import GroupShard

GROUPS = ("g", "h")
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
PRODUCERS = [Producer(ProducerId(number), ProducerEpoch(0)) for number in (1, 2)]

Where = tuple[str, TopicPartition]


class Model:
    """What an offset must be: the committed writes in the order of the log, replayed each time."""

    def __init__(self) -> None:
        self.writes: list[tuple[Where, int | None, int | None]] = []
        self.decided: dict[int, bool] = {}
        self.open: dict[ProducerId, list[int]] = {
            producer.producer_id: [] for producer in PRODUCERS
        }

    def write(self, where: Where, offset: int, producer: Producer | None) -> None:
        if producer is not None:
            self.open[producer.producer_id].append(len(self.writes))
        self.writes.append((where, offset, None if producer is None else producer.producer_id))

    def delete(self, where: Where) -> None:
        for pending in self.open.values():
            pending[:] = [index for index in pending if self.writes[index][0] != where]
        self.writes.append((where, None, None))

    def end(self, producer_id: ProducerId, *, commit: bool) -> None:
        self.decided |= dict.fromkeys(self.open[producer_id], commit)
        self.open[producer_id] = []

    def offset(self, where: Where) -> int:
        found = -1
        for index, (at, offset, producer_id) in enumerate(self.writes):
            if at == where and (producer_id is None or self.decided.get(index, False)):
                found = -1 if offset is None else offset
        return found

    def unstable(self, where: Where) -> bool:
        return any(
            self.writes[index][0] == where for open_ in self.open.values() for index in open_
        )


def check(shard: GroupShard, model: Model) -> None:
    for registry in (shard.registry, shard.replica()):
        check_index(registry._table.offsets, model)
    for group in GROUPS:
        for registry in (shard.registry, shard.replica()):
            plain = registry.fetch_offsets(group, PARTITIONS)
            stable = registry.fetch_offsets(group, PARTITIONS, require_stable=True)
            for where in PARTITIONS:
                assert plain[where].offset == model.offset((group, where))
                assert (stable[where].error is not None) == model.unstable((group, where))


def check_index(offsets: OffsetStore, model: Model) -> None:
    """The offsets of each topic are all that are committed or wait, and no others."""
    there = {
        (group, where)
        for group in GROUPS
        for where in PARTITIONS
        if model.offset((group, where)) != -1 or model.unstable((group, where))
    }
    assert set(offsets.topics()) == {where.topic for _, where in there}
    for topic in ("t", "u"):
        found = offsets.of_topic(topic)
        assert sorted(found) == sorted(each for each in there if each[1].topic == topic)
        for group, where in found:
            holding = offsets._holding(group, where)
            assert len(holding) == offsets._counts[topic][group][where.partition]


@pytest.mark.parametrize("seed", range(30))
def test_offsets_are_those_of_the_committed_writes_in_order(seed: int) -> None:
    chance = random.Random(seed)
    shard, model = GroupShard(), Model()
    for step in range(60):
        shard.fail_appends = chance.random() < 0.1
        group, where = chance.choice(GROUPS), chance.choice(PARTITIONS)
        producer = chance.choice([None, *PRODUCERS])
        dice = chance.random()
        if dice < 0.6:
            request = CommitRequest(
                group_id=group, offsets={where: OffsetToCommit(offset=step)}, producer=producer
            )
            if shard.ask(request).error is None:
                model.write((group, where), step, producer)
        elif dice < 0.8:
            producer = chance.choice(PRODUCERS)
            commit = chance.random() < 0.5
            shard.end_transaction(producer.producer_id, commit=commit)
            model.end(producer.producer_id, commit=commit)
        elif dice < 0.9 and not shard.fail_appends:
            shard.run(shard.registry.forget_topics({"u": UUID(int=1)}))
            for name in GROUPS:
                model.delete((name, PARTITIONS[2]))
        else:
            shard = shard.reopened()
        check(shard, model)
