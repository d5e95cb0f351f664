"""Makes mirror topics topics of their own: clients may write to them from then on.

Rule 1: copying stops for good first. What the source had that is not here is known then, and said.
Rule 2: each leader fences what the source's producers left (decision 0040), and every replica that
is in sync has that, before a client may write.
Rule 3: every step may be done again. A promotion that was cut off goes on where it stopped.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.client.admin.admin import Admin, ConfigChange, ConfigEntry
from headrace.client.error import BrokerError, ClientError, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.leader_call import by_topic, split_by_leader, walk
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import Retry
from headrace.client.read.offset_lookup import LATEST, FoundOffset, list_offsets
from headrace.mirror.link.mirror_topic import (
    FENCE_ID,
    LINK,
    PAUSED,
    SOURCE_TOPIC,
    SOURCE_TOPIC_ID,
    STATE,
    STOPPED,
)
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey

LOWEST_ID = "headrace.producer.id.lowest"
_FENCE_SECONDS = 60.0
_STANDING_SECONDS = 1.0
_ALL_BROKERS = ""
_LARGEST_LOWEST_ID = 2**62


@dataclass(frozen=True, slots=True)
class Missing:
    """What the source has that a promoted partition has not: the offsets from `start` to before
    `end`. `end` is None when the source cannot say."""

    partition: TopicPartition
    start: int
    end: int | None


class PromotionFailed(ClientError):
    """A mirror topic is still a mirror."""


class Promotion:
    """Promotes some topics of a cluster.

    Args:
        target: the cluster of the mirrors.
        source: where they come from; None when it cannot be reached.
        say: called with what happens, for people.
        link: of which link the topics must be mirrors; None for any.
    """

    def __init__(
        self,
        target: ConnectionPool,
        source: ConnectionPool | None,
        say: Callable[[str], object] = lambda text: None,
        link: str | None = None,
    ) -> None:
        self._target = target
        self._source = source
        self._say = say
        self._link = link
        self._stopped_before: set[str] = set()

    def run(self, topics: Sequence[str]) -> list[Missing]:
        """Promote topics; return what was not copied before.

        Raises:
            InvalidArgument: none of them is a mirror.
            ClientError: it could not be done. Nothing is written to by clients that was not
                promoted; run it again.
        """
        names = self._source_names(topics)
        mirrors = list(names)
        partitions = self._partitions(mirrors)
        missing = self._pause(mirrors, partitions, names)
        self._alter(mirrors, [ConfigChange(ConfigOperation.SET, STATE, STOPPED)])
        self._say(f"copying has stopped: {', '.join(mirrors)}")
        self._raise_ids(self._wait_for_fence(partitions) + 1)
        keys = (STATE, SOURCE_TOPIC, SOURCE_TOPIC_ID, LINK)
        self._alter(mirrors, [ConfigChange(ConfigOperation.DELETE, key) for key in keys])
        self._say("clients may write to them now")
        return missing

    def _pause(
        self,
        mirrors: Sequence[str],
        partitions: Sequence[TopicPartition],
        names: Mapping[str, str],
    ) -> list[Missing]:
        """Pause copying, and return what is not here. What a run before has fenced stays so."""
        stopped = {each for each in mirrors if each in self._stopped_before}
        if stopped:
            self._say(
                f"an earlier run has stopped {', '.join(sorted(stopped))}: the markers of its "
                "fence count as copied"
            )
        running = [each for each in mirrors if each not in stopped]
        if running:
            self._alter(running, [ConfigChange(ConfigOperation.SET, STATE, PAUSED)])
        return self._missing(self._settled_ends(partitions), names)

    # -- what is promoted

    def _source_names(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the mirrors among the topics, with what they are called at the source."""
        names: dict[str, str] = {}
        described = Admin(self._target).describe_configs(ConfigResourceType.TOPIC, topics)
        for topic, entries in described.items():
            if isinstance(entries, BrokerError):
                raise entries
            found = _values(entries)
            if self._link is not None and found.get(LINK) not in ("", None, self._link):
                raise InvalidArgument(
                    f"{topic} is a mirror of {found[LINK]}, not of {self._link}: name its flow"
                )
            if not found.get(LINK):
                self._say(f"{topic} is no mirror, or was promoted before")
                continue
            names[topic] = found.get(SOURCE_TOPIC) or topic
            if found.get(STATE) == STOPPED:
                self._stopped_before.add(topic)
        if not names:
            raise InvalidArgument(f"{', '.join(topics)}: no mirror is among them")
        return names

    def _partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        found = self._target.metadata(topics).topics
        return [TopicPartition(name, index) for name in topics for index in found[name].partitions]

    def _alter(self, topics: Sequence[str], changes: Sequence[ConfigChange]) -> None:
        outcomes = Admin(self._target).alter_configs(
            ConfigResourceType.TOPIC, dict.fromkeys(topics, changes)
        )
        for topic, error in outcomes.items():
            if error is not None:
                raise PromotionFailed(f"{topic} is still a mirror: {error}")

    # -- the fence

    def _wait_for_fence(self, partitions: Sequence[TopicPartition]) -> int:
        """Return the largest producer id of the source, when all of them are fenced."""
        retry = Retry(self._target.settings, _FENCE_SECONDS)
        while True:
            try:
                found = self._fences(partitions)
            except ClientError as error:
                found = str(error)
            if not isinstance(found, str):
                return found
            if not retry.pause():
                raise PromotionFailed(f"{found}; run the command again")

    def _fences(self, partitions: Sequence[TopicPartition]) -> int | str:
        """Return the largest producer id of the source; or why the fence is not complete.

        All questions go to one leader in one leader epoch. It answers the last one only if it has
        led since before the first, so that no other leader has a log without the fence.
        """
        metadata = self._target.metadata({each.topic for each in partitions})
        missing, by_leader = split_by_leader(metadata, partitions)
        for error in missing.values():
            return str(error)
        largest = -1
        for leader, led in by_leader.items():
            connection = self._target.node(leader)
            epochs = {
                each: metadata.topics[each.topic].partitions[each.partition].leader_epoch
                for each in led
            }
            producers = _producers(connection, led)
            log_ends, ends = _log_ends(connection, epochs), _ends(connection, epochs)
            for each in led:
                reason = _unfenced(each, producers[each])
                if reason is not None:
                    return reason
                if ends[each] < log_ends[each]:
                    return f"the replicas of {each} are not in step yet"
                ids = [one.producer_id for one in producers[each] if one.producer_id != FENCE_ID]
                largest = max(largest, *ids, -1)
        return largest

    # -- what is not here

    def _settled_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of the mirrors once they stand still: their leaders have paused."""
        retry = Retry(self._target.settings, _FENCE_SECONDS)
        before: dict[TopicPartition, int] = {}
        while True:
            found = _sound(list_offsets(self._target, dict.fromkeys(partitions, LATEST)))
            ends = {each: found[each].offset for each in partitions}
            if ends == before:
                return ends
            before = ends
            time.sleep(_STANDING_SECONDS)
            if not retry.pause():
                raise PromotionFailed("the mirrors are still copied; run the command again")

    def _missing(
        self, ends: Mapping[TopicPartition, int], names: Mapping[str, str]
    ) -> list[Missing]:
        theirs: dict[TopicPartition, FoundOffset | ClientError] = {}
        if self._source is not None:
            wanted = [TopicPartition(names[each.topic], each.partition) for each in ends]
            theirs = list_offsets(self._source, dict.fromkeys(wanted, LATEST))
        missing: list[Missing] = []
        for partition, start in ends.items():
            found = theirs.get(TopicPartition(names[partition.topic], partition.partition))
            end = found.offset if isinstance(found, FoundOffset) else None
            if end is None or end > start:
                missing.append(Missing(partition, start, end))
        return missing

    def _raise_ids(self, lowest: int) -> None:
        """Give no producer of this cluster an id that one of the source had."""
        admin = Admin(self._target)
        broker = str(min(self._target.metadata(()).brokers))
        entries = admin.describe_configs(ConfigResourceType.BROKER, [broker])[broker]
        if isinstance(entries, BrokerError):
            raise entries
        lowest = min(lowest, _LARGEST_LOWEST_ID)
        if lowest <= int(_values(entries).get(LOWEST_ID) or 0):
            return
        change = ConfigChange(ConfigOperation.SET, LOWEST_ID, str(lowest))
        outcome = admin.alter_configs(ConfigResourceType.BROKER, {_ALL_BROKERS: [change]})
        error = outcome[_ALL_BROKERS]
        if error is not None:
            raise error


def _producers(
    connection: BrokerConnection, led: Sequence[TopicPartition]
) -> dict[TopicPartition, Any]:
    topics = [
        {"name": topic, "partition_indexes": list(indexes)}
        for topic, indexes in by_topic(led).items()
    ]
    answer = connection.call(ApiKey.DESCRIBE_PRODUCERS, {"topics": topics})
    return _sound(
        {
            partition: error_of(each.error_code, each.error_message) or each.active_producers
            for partition, each in walk(answer.topics)
        }
    )


def _log_ends(
    connection: BrokerConnection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return where the logs of a leader end, if it leads in these epochs."""
    topics = [
        {
            "topic": topic,
            "partitions": [
                {
                    "partition": index,
                    "current_leader_epoch": epochs[TopicPartition(topic, index)],
                    "leader_epoch": epochs[TopicPartition(topic, index)],
                }
                for index in indexes
            ],
        }
        for topic, indexes in by_topic(epochs).items()
    ]
    answer = connection.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, {"replica_id": -1, "topics": topics})
    return _sound(
        {
            TopicPartition(topic.topic, each.partition): error_of(each.error_code)
            or each.end_offset
            for topic in answer.topics
            for each in topic.partitions
        }
    )


def _ends(
    connection: BrokerConnection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return up to where all replicas in sync have the logs of a leader of these epochs."""
    topics = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": index,
                    "current_leader_epoch": epochs[TopicPartition(topic, index)],
                    "timestamp": LATEST,
                }
                for index in indexes
            ],
        }
        for topic, indexes in by_topic(epochs).items()
    ]
    body = {"replica_id": -1, "isolation_level": 0, "topics": topics}
    answer = connection.call(ApiKey.LIST_OFFSETS, body)
    return _sound(
        {
            partition: error_of(each.error_code) or each.offset
            for partition, each in walk(answer.topics)
        }
    )


def _unfenced(partition: TopicPartition, producers: Sequence[Any]) -> str | None:
    if all(each.producer_id != FENCE_ID for each in producers):
        return f"the leader of {partition} has not put up its fence yet"
    for each in producers:
        if each.last_sequence >= 0 or each.current_txn_start_offset >= 0 or each.producer_epoch:
            return f"producer {each.producer_id} of the source is not fenced in {partition} yet"
    return None


def _values(entries: Sequence[ConfigEntry]) -> dict[str, str]:
    return {each.name: each.value for each in entries if each.value is not None}


def _sound(found: Mapping[TopicPartition, Any]) -> dict[TopicPartition, Any]:
    """Return the results of all partitions.

    Raises:
        ClientError: that of the first partition that has one.
    """
    for result in found.values():
        if isinstance(result, ClientError):
            raise result
    return dict(found)
