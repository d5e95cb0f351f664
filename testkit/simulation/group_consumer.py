"""A client of the operators' simulator that is a member of a group, by one protocol or the other.

It joins, leaves or dies after some time, and comes back as another member. Operators roll out the
consumer protocol and the classic one in turn, and most clients that come go along. So the group
passes between both, in both directions, while coordinators fail over and topics come and go. When
the faults have ended every client stays what it is.
"""

import asyncio
from typing import NoReturn, TypeVar

from headrace.groups.request import GroupReply, GroupRequest
from headrace.groups.topic import GroupTopic
from testkit.simulation.coordinator_call import ask_coordinator
from testkit.simulation.group_ownership import Answer, GroupOwnership, Holding
from testkit.simulation.group_protocol_member import (
    ClassicProtocolMember,
    ConsumerProtocolMember,
    ProtocolMember,
)
from testkit.simulation.seam_broker import TOPIC
from testkit.simulation.seam_client import ClientHost
from testkit.simulation.virtual_loop import VirtualLoop

ReplyT = TypeVar("ReplyT", bound=GroupReply)

_PAUSE_MS = 160
_AWAY_MS = 500
_GOES = 0.08
_GOES_OUTDATED = 0.25
_DIES = 0.5
_STUBBORN = 0.15


class GroupConsumer:
    """One client.

    Args:
        cooperative: how it is a member of the classic protocol, as all clients of its group.
        rollout_ms: after how long operators want the other protocol.

    Attributes:
        busy: never; `GroupOwnership.problem` says whether the group has come to its end.
    """

    busy = False

    def __init__(
        self,
        host: ClientHost,
        number: int,
        loop: VirtualLoop,
        group: GroupOwnership,
        *,
        cooperative: bool,
        rollout_ms: int,
    ) -> None:
        self._host = host
        self._name = f"member {number}"
        self._loop = loop
        self.group = group
        self.cooperative = cooperative
        self._rollout_ms = rollout_ms
        self._lives = 0

    def start(self) -> None:
        self._loop.run(lambda: self._loop.create_task(self._run()))

    async def _run(self) -> None:
        random = self._host.random
        while True:
            self._lives += 1
            await self._live(classic=self._classic_wanted ^ (random.random() < _STUBBORN))
            await asyncio.sleep(random.randint(1, _AWAY_MS) / 1000)

    @property
    def _classic_wanted(self) -> bool:
        """Whether operators want the classic protocol now; an odd time begins with the other."""
        return (self._host.now_ms // self._rollout_ms + self._rollout_ms) % 2 == 0

    def _goes(self, *, classic: bool) -> bool:
        if self._host.calm:
            return False
        outdated = classic is not self._classic_wanted
        return self._host.random.random() < (_GOES_OUTDATED if outdated else _GOES)

    async def _live(self, *, classic: bool) -> None:
        """Be one member, until it leaves or dies."""
        host = self._host
        name = f"{self._name}.{self._lives}"
        holding = Holding(name=name, classic=classic)
        make = ClassicProtocolMember if classic else ConsumerProtocolMember
        member: ProtocolMember = make(self, holding)
        host.say(name, f"comes, by the {'classic' if classic else 'consumer'} protocol")
        self.group.join(holding)
        while not self._goes(classic=classic):
            await member.step()
            await asyncio.sleep(host.random.randint(1, _PAUSE_MS) / 1000)
        self.group.forget(holding)
        if host.random.random() < _DIES:
            host.say(name, "dies")
        else:
            host.say(name, "leaves")
            await member.leave()

    # -- for the member

    async def ask(self, request: GroupRequest[ReplyT], patience_ms: int) -> Answer[ReplyT] | None:
        """Ask the coordinator; None when there is no answer."""
        sent_ms = self._host.now_ms
        return await ask_coordinator(
            self._host,
            self._loop,
            lambda peer: self.group.handle(peer, request, sent_ms),
            patience_ms,
        )

    def topics(self) -> tuple[GroupTopic, ...] | None:
        """Return the topic as some broker knows it; None when no broker answers."""
        serving = [each for each in self._host.members.values() if each.serves]
        if not serving:
            return None
        topic = self._host.random.choice(serving).topics.by_name(TOPIC)
        if topic is None:
            return ()
        return (GroupTopic(TOPIC, topic.topic_id, len(topic.partitions)),)

    def fail(self, what: str) -> NoReturn:
        self._host.fail(what)
