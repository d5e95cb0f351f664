"""Which partitions a source reads: `subscribe`, `subscribePattern` or `assign`."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.model.error import ConfigError, HeadraceError
from headrace.model.ids import TopicPartition
from headrace.spark.option_text import OptionText, wrong
from headrace.spark.source.cluster_topic_ids import ClusterTopicIds
from headrace.spark.source.offset_json import read_partitions

if TYPE_CHECKING:
    # Options are also read by processes that connect to no cluster; loading the client takes time.
    from headrace.client.network.metadata import Metadata, TopicMetadata
    from headrace.client.network.pool import ConnectionPool

CHOICES = ("subscribe", "subscribePattern", "assign")


class TopicMissing(HeadraceError):
    """A topic or a partition that the source must read does not exist."""


class TopicListing(NamedTuple):
    """The partitions that exist, in order, and the ids of their topics."""

    partitions: list[TopicPartition]
    ids: ClusterTopicIds


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """One of the three options; the others are None.

    Attributes:
        text: what the user wrote.
    """

    text: str
    topics: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    assigned: tuple[TopicPartition, ...] | None = None

    def listing(self, pool: "ConnectionPool", *, missing_ok: bool = False) -> TopicListing:
        """Return the partitions that exist now.

        Args:
            missing_ok: leave out topics that are gone. A stream that has read them decides itself
                whether that is a loss.

        Raises:
            TopicMissing: names the nearest topic that exists.
            BrokerError: the cluster refuses the request.
        """
        if self.pattern is not None:
            metadata = _settled_metadata(pool, None, self.pattern)
            names = sorted(
                topic.name
                for topic in metadata.topics.values()
                if not topic.internal and self.pattern.fullmatch(topic.name)
            )
            missing_ok = True
        else:
            names = list(self.topics or sorted({each.topic for each in self.assigned or ()}))
            metadata = _settled_metadata(pool, names)
        there = _partitions_of(metadata, names, pool, missing_ok=missing_ok)
        if self.assigned is not None:
            assigned = set(self.assigned)
            lost = assigned.difference(there)
            if lost and not missing_ok:
                raise TopicMissing(f"there is no partition {min(lost)} to assign")
            there = [each for each in there if each in assigned]
        ids = {name: found for name in names if (found := metadata.topic_id(name)) is not None}
        return TopicListing(there, ClusterTopicIds(metadata.cluster_id or "", ids))


def read_choice(options: OptionText) -> TopicChoice:
    """Parse the option that chooses topics.

    Raises:
        ConfigError: none of the three options, more than one, or one that names nothing.
    """
    given = [name for name in CHOICES if name in options]
    if not given:
        raise ConfigError(
            "say what to read: one of the options subscribe, subscribePattern, assign"
        )
    if len(given) > 1:
        raise ConfigError(
            f"only one of the options {', '.join(CHOICES)} can be given, not both "
            f"{given[0]} and {given[1]}"
        )
    text = options.get(given[0]) or ""
    if given[0] == "assign":
        return TopicChoice(text, assigned=tuple(_assigned(text)))
    if given[0] == "subscribePattern":
        return TopicChoice(text, pattern=_pattern(text))
    topics = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if not topics:
        raise wrong("subscribe", text, "write the names of topics, with commas between")
    return TopicChoice(text, topics=topics)


def _assigned(text: str) -> list[TopicPartition]:
    found = read_partitions("assign", text)
    if not found:
        raise wrong("assign", text, 'name at least one partition, as in {"clicks":[0,1]}')
    return found


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise wrong("subscribePattern", text, "write a regular expression, as in page-.*")
    try:
        return re.compile(text)
    except re.error as error:
        raise wrong("subscribePattern", text, f"it is no regular expression: {error}") from error


def _settled_metadata(
    pool: "ConnectionPool", names: Sequence[str] | None, pattern: re.Pattern[str] | None = None
) -> "Metadata":
    """Fetch metadata. Retry, for default.api.timeout.ms, while a topic to read changes leaders."""
    from headrace.client.network.retry import STALE_LEADER, Retry

    retry = Retry(pool.settings)
    while True:
        found = pool.metadata(names)
        changing = any(
            each.error is not None and each.error.code in STALE_LEADER
            for each in found.topics.values()
            if pattern is None or pattern.fullmatch(each.name)
        )
        if not changing or not retry.pause():
            return found


def _partitions_of(
    metadata: "Metadata", names: Sequence[str], pool: "ConnectionPool", *, missing_ok: bool
) -> list[TopicPartition]:
    found = []
    for name in names:
        topic = metadata.topics.get(name)
        if _is_missing(topic):
            if missing_ok:
                continue
            raise _missing(name, pool)
        assert topic is not None
        if topic.error is not None:
            raise topic.error
        found += [topic.partition(index) for index in topic.partitions]
    return sorted(found)


def _is_missing(topic: "TopicMetadata | None") -> bool:
    return topic is None or (
        topic.error is not None and topic.error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    )


def _missing(name: str, pool: "ConnectionPool") -> TopicMissing:
    there = [each.name for each in pool.metadata(None).topics.values() if not each.internal]
    near = difflib.get_close_matches(name, there, n=1)
    hint = f"did you mean {near[0]}?" if near else "create it first, or check the spelling"
    return TopicMissing(f"there is no topic {name}; {hint}")
