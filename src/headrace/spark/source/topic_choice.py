"""Which partitions a source reads: `subscribe`, `subscribePattern` or `assign`."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.error import ConfigError, HeadraceError
from headrace.model.ids import TopicPartition
from headrace.spark.option_text import OptionText, wrong
from headrace.spark.source.offset_json import read_partitions

if TYPE_CHECKING:
    # Options are read where nothing is asked of a cluster, and the client costs time to load.
    from headrace.client.network.metadata import Metadata, TopicMetadata
    from headrace.client.network.pool import ConnectionPool

CHOICES = ("subscribe", "subscribePattern", "assign")


class TopicMissing(HeadraceError):
    """A topic or a partition that the source was told to read is not there."""


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """One of the three; the others are None.

    Attributes:
        text: what the user wrote.
    """

    text: str
    topics: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    assigned: tuple[TopicPartition, ...] | None = None

    def partitions(
        self, pool: "ConnectionPool", *, missing_ok: bool = False
    ) -> list[TopicPartition]:
        """The partitions there are now.

        Args:
            missing_ok: leave out topics that are gone: a stream that has read of them decides by
                itself whether that is a loss.

        Raises:
            TopicMissing: naming the nearest topic there is.
            BrokerError: the cluster refuses to tell.
        """
        if self.pattern is not None:
            found = _told(pool, None, self.pattern)
            names = [
                topic.name
                for topic in found.topics.values()
                if not topic.internal and self.pattern.fullmatch(topic.name)
            ]
            return _all(found, sorted(names), pool, missing_ok=True)
        if self.assigned is not None:
            names = sorted({each.topic for each in self.assigned})
            there = _all(_told(pool, names), names, pool, missing_ok=missing_ok)
            lost = set(self.assigned) - set(there)
            if lost and not missing_ok:
                raise TopicMissing(f"there is no partition {min(lost)} to assign")
            return [each for each in there if each in self.assigned]
        assert self.topics is not None
        return _all(_told(pool, self.topics), self.topics, pool, missing_ok=missing_ok)


def read_choice(options: OptionText) -> TopicChoice:
    """Raises:
    ConfigError: none of the three, more than one, or one that names nothing.
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


def _told(
    pool: "ConnectionPool", names: Sequence[str] | None, pattern: re.Pattern[str] | None = None
) -> "Metadata":
    """Metadata in which no topic that is read is just changing leaders, if that comes to an end
    within default.api.timeout.ms."""
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


def _all(
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
