"""Requests to the group coordinator of a simulated cluster, wherever it is."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.model.ids import TopicPartition
from testkit.simulation.seam_broker import SeamBroker
from testkit.simulation.seam_client import CLIENT, ClientHost
from testkit.simulation.virtual_call import CallLost, virtual_call
from testkit.simulation.virtual_loop import VirtualLoop

Result = TypeVar("Result")


async def ask_coordinator(
    host: ClientHost,
    loop: VirtualLoop,
    work: Callable[[SeamBroker], Awaitable[Result]],
    patience_ms: int,
) -> Result | None:
    """Let the broker work that some other broker takes for the coordinator, as a client finds it.

    Return None when there is none, or no answer.
    """
    serving = [each for each in host.members.values() if each.serves]
    if not serving:
        return None
    peer = host.random.choice(serving)
    topic = peer.topics.by_name(CONSUMER_OFFSETS)
    if topic is not None:
        leader = host.members.get(topic.record.partitions[0].leader)
        peer = peer if leader is None else leader
    try:
        return await virtual_call(host, CLIENT, loop, peer, work, patience_ms)
    except CallLost:
        return None


def coordinator_of(host: ClientHost) -> SeamBroker | None:
    """Return the coordinator of every group, once the faults have ended."""
    where = TopicPartition(CONSUMER_OFFSETS, 0)
    return next((each for each in host.members.values() if each.led(where)), None)
