"""Random histories of a classic group whose clients follow the protocol, lose answers and die."""

import random
from typing import Any

import pytest

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.message import (
    HeartbeatRequest,
    JoinReply,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from headrace.groups.classic.state import ClassicState
from headrace.groups.config import GroupConfig
from headrace.groups.description import describe_classic
from headrace.groups.error import GroupError
from headrace.groups.record import MemberProtocol
from testkit.simulation.group_shard import GroupShard

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=3_000, new_member_join_timeout_ms=60_000)
HISTORIES = 120
STEPS = 120

RETRIABLE = {GroupError.COORDINATOR_NOT_AVAILABLE, GroupError.NOT_COORDINATOR}


class Client:
    """A consumer: joins, syncs, heartbeats, and does what the replies ask for."""

    def __init__(self, number: int, chance: random.Random) -> None:
        self.chance = chance
        self.instance_id = f"i{number}" if number % 3 == 0 else None
        self.knows_member_ids = chance.random() < 0.5
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self.waiting: Any = None
        self.joined: JoinReply | None = None

    def step(self, shard: GroupShard) -> None:
        if self.waiting is not None:
            if shard.is_parked(self.waiting):
                return
            self.read(shard.answer(self.waiting))
        elif self.joined is not None:
            self.sync(shard)
        elif self.assignment is None:
            self.join(shard)
        elif self.chance.random() < 0.05:
            self.leave(shard)
        else:
            self.heartbeat(shard)

    def restart(self) -> None:
        self.__init__(0 if self.instance_id == "i0" else 3, self.chance)  # type: ignore[misc]

    def join(self, shard: GroupShard) -> None:
        request = JoinRequest(
            group_id="g",
            member_id=self.member_id,
            instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=(MemberProtocol("range", b""), MemberProtocol("sticky", b"")),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=self.chance.choice([5_000, 30_000]),
            require_member_id=self.knows_member_ids,
        )
        self.waiting = shard.send(request)

    def sync(self, shard: GroupShard) -> None:
        assert self.joined is not None
        members = [member.member_id for member in self.joined.members]
        request = SyncRequest(
            group_id="g",
            member_id=self.member_id,
            instance_id=self.instance_id,
            generation=self.generation,
            assignments={id_: f"{self.generation}:{id_}".encode() for id_ in members},
        )
        self.waiting = shard.send(request)

    def heartbeat(self, shard: GroupShard) -> None:
        request = HeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            instance_id=self.instance_id,
            generation=self.generation,
        )
        self.obey(shard.ask(request).error)

    def leave(self, shard: GroupShard) -> None:
        leaving = LeavingMember(member_id=self.member_id, instance_id=self.instance_id)
        shard.send(LeaveRequest(group_id="g", members=(leaving,)))
        self.member_id, self.assignment = "", None

    def read(self, reply: JoinReply | SyncReply) -> None:
        self.waiting = None
        if isinstance(reply, JoinReply):
            if reply.error in (None, GroupError.MEMBER_ID_REQUIRED):
                self.member_id = reply.member_id
            if reply.error is None:
                assert reply.generation > self.generation or self.assignment is None
                self.generation, self.joined = reply.generation, reply
        else:
            self.joined = None
            if reply.error is None:
                self.assignment = reply.assignment
        self.obey(reply.error)

    def obey(self, error: GroupError | None) -> None:
        if error is None or error is GroupError.MEMBER_ID_REQUIRED or error in RETRIABLE:
            return
        self.joined = self.assignment = None
        if error is not GroupError.REBALANCE_IN_PROGRESS:
            self.member_id = ""


def group_of(shard: GroupShard) -> ClassicGroup | None:
    group = shard.group("g")
    assert group is None or isinstance(group, ClassicGroup)
    return group


def check(shard: GroupShard, generations: list[int]) -> None:
    group = group_of(shard)
    if group is None:
        return
    assert group.generation >= generations[-1]
    generations.append(group.generation)
    assert all(len(answers) == 1 for answers in shard.answers.values())
    assert group.state is not ClassicState.EMPTY or not group.members
    assert group.leader is None or group.leader in group.members
    assert set(group.roster.static.values()) <= group.members.keys()
    assert group.pending_sync <= group.members.keys()
    if group.state is ClassicState.STABLE:
        assert group.leader is not None
        assert not any(member.joining or member.syncing for member in group.members.values())
    if group.state in (ClassicState.STABLE, ClassicState.EMPTY) and group.generation > 0:
        durable = shard.durable_group("g")
        assert isinstance(durable, ClassicGroup)
        assert describe_classic(durable) == describe_classic(group)


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_keep_every_promise(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(HISTORIES // 6):
        shard = GroupShard(CONFIG)
        clients = [Client(number, chance) for number in range(chance.randint(1, 5))]
        generations = [0]
        for _ in range(STEPS):
            shard.fail_appends = chance.random() < 0.05
            if chance.random() < 0.3:
                shard.advance(chance.choice([100, 1_000, 3_000, 11_000]))
            elif chance.random() < 0.03:
                chance.choice(clients).restart()
            elif chance.random() < 0.02:
                shard = shard.reopened()
                for client in clients:
                    client.waiting = client.joined = None
                generations = [0]
            else:
                chance.choice(clients).step(shard)
            check(shard, generations)


@pytest.mark.parametrize("seed", range(6))
def test_group_becomes_stable_when_its_members_just_go_on(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        shard = GroupShard(CONFIG)
        clients = [Client(number, chance) for number in range(chance.randint(1, 5))]
        for _ in range(60):
            chance.choice(clients).step(shard)
            shard.advance(chance.choice([10, 2_000]))

        for client in clients:
            client.leave = lambda _: None  # type: ignore[method-assign]
        for _ in range(60):
            for client in clients:
                client.step(shard)
            shard.advance(1_500)

        group = group_of(shard)
        assert group is not None
        assert group.state is ClassicState.STABLE
        assert {client.member_id for client in clients} == group.members.keys()
        for client in clients:
            assert client.waiting is None
            assert client.assignment == group.members[client.member_id].assignment
