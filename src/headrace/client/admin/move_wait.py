"""Waits for moves of replicas to end.

A move goes on by itself when the brokers it needs are back, so a caller may stop waiting at any
time. What ends the wait early is a broker that stays away: to wait for it has no end.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from headrace.client.admin.replica_admin import Move
from headrace.client.error import ClientError
from headrace.client.network.metadata import Metadata
from headrace.model.ids import TopicPartition

_POLL_SECONDS: Final = 0.5
# Longer than a restart of a broker takes, and the time in which a cluster notices its death.
_AWAY_SECONDS: Final = 60.0
_SHOWN: Final = 5


class MovingCluster(Protocol):
    """What is asked of a cluster again and again."""

    def moves(self) -> dict[TopicPartition, Move]:
        """Return the moves under way."""

    def metadata(self) -> Metadata:
        """Return which brokers run, and which lead."""


@dataclass(frozen=True, slots=True)
class MissingBroker:
    """What waits for a broker that is not running.

    Attributes:
        adding: the partitions of which a replica moves to it.
        leaderless: the partitions without a leader of which it has the records.
    """

    adding: list[TopicPartition] = field(default_factory=list)
    leaderless: list[TopicPartition] = field(default_factory=list)


def missing_brokers(
    moves: Mapping[TopicPartition, Move], metadata: Metadata
) -> dict[int, MissingBroker]:
    """Return the brokers that are not running and that moves wait for."""
    found: dict[int, MissingBroker] = {}
    for partition, move in sorted(moves.items()):
        topic = metadata.topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        # Only a replica that was in sync to the last may lead again.
        leaders = known.in_sync if known is not None and known.leader < 0 else ()
        for broker in (*leaders, *(each for each in move.adding if each not in leaders)):
            if broker not in metadata.brokers:
                missing = found.setdefault(broker, MissingBroker())
                (missing.leaderless if broker in leaders else missing.adding).append(partition)
    return found


class MoveWait:
    """Waits until no replica moves.

    Args:
        limit_seconds: give up after this long, also when the moves go on; None: never.
        away_seconds: give up when a broker that moves wait for is away for this long.

    Raises:
        ClientError: from `run`, with a sentence that says what to do. The moves stay.
    """

    def __init__(
        self,
        cluster: MovingCluster,
        *,
        limit_seconds: float | None = None,
        away_seconds: float = _AWAY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._limit_seconds = limit_seconds
        self._away_seconds = away_seconds
        self._clock, self._sleep = clock, sleep
        self._away_since: dict[int, float] = {}

    def run(self) -> None:
        """Return when no replica moves."""
        began = self._clock()
        while moves := self._cluster.moves():
            now = self._clock()
            self._check_brokers(missing_brokers(moves, self._cluster.metadata()), now)
            if self._limit_seconds is not None and now - began >= self._limit_seconds:
                raise ClientError(
                    f"{len(moves)} moves are still under way after {now - began:.0f} s "
                    f"({_names(list(moves))}). They go on without this command: headrace cluster "
                    "partitions shows them"
                )
            self._sleep(_POLL_SECONDS)

    def _check_brokers(self, missing: dict[int, MissingBroker], now: float) -> None:
        self._away_since = {each: self._away_since.get(each, now) for each in missing}
        away = [
            (each, now - since)
            for each, since in self._away_since.items()
            if now - since >= self._away_seconds
        ]
        # These first: to give up another broker helps no partition without a leader.
        for broker, seconds in away:
            if waiting := missing[broker].leaderless:
                raise ClientError(
                    f"{len(waiting)} partitions have no leader ({_names(waiting)}), and their "
                    f"records are on broker {broker}, which has not been running for "
                    f"{seconds:.0f} s: start broker {broker}, and the moves go on by themselves"
                )
        for broker, seconds in away:
            waiting = missing[broker].adding
            raise ClientError(
                f"broker {broker} has not been running for {seconds:.0f} s, and "
                f"{len(waiting)} moves wait for it ({_names(waiting)}). Start it, and they go "
                "on by themselves; if it will not come back, write headrace cluster "
                f"decommission {broker}, and then this command again"
            )


def _names(partitions: list[TopicPartition]) -> str:
    return ", ".join(map(str, partitions[:_SHOWN])) + ", ..." * (len(partitions) > _SHOWN)
