"""The ids of the topics that a stream reads, kept among the offsets in Spark's checkpoint.

A topic that is deleted and created again keeps its name and counts its offsets from 0. When it has
more records than were read before, only its id shows that it is another topic.

An id is stored as a topic without partitions, which no reader of offsets looks at: neither Spark's
own connector nor an earlier version of this one.

    {"clicks": {"0": 23}, "#nQm2S0OPTpC9B3FlJc8nEg": {}, "clicks#9HrBC1jMQ3KlZw4CssPUeQ": {}}

Rule 1: an id holds in its cluster, whose id stands first. A query that moves to a cluster with a
copy of the topics goes on at its offsets.
Rule 2: what has no id is not compared: offsets of a checkpoint without ids, brokers without them.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from headrace.model.ids import parse_uuid_text, uuid_text

# No topic's name may have it.
_MARK: Final = "#"


@dataclass(frozen=True, slots=True)
class ClusterTopicIds:
    """The ids of topics in one cluster.

    Attributes:
        cluster: the id of the cluster; empty if its brokers have none.
    """

    cluster: str = ""
    by_topic: Mapping[str, UUID] = field(default_factory=dict)

    @classmethod
    def load(cls, shape: Mapping[str, Mapping[str, int]]) -> "ClusterTopicIds":
        """Return the ids in what `dump` returned. Offsets may stand between them."""
        cluster = ""
        found: dict[str, UUID] = {}
        for name in shape:
            topic, mark, text = name.partition(_MARK)
            if mark and not topic:
                cluster = text
            elif mark:
                with suppress(ValueError):
                    found[topic] = parse_uuid_text(text)
        return cls(cluster, found)

    def dump(self, topics: Collection[str]) -> dict[str, dict[str, int]]:
        """Return entries for the offsets of these topics, sorted."""
        found: dict[str, dict[str, int]] = {
            f"{topic}{_MARK}{uuid_text(self.by_topic[topic])}": {}
            for topic in sorted(topics)
            if topic in self.by_topic
        }
        return {f"{_MARK}{self.cluster}": {}, **found} if found and self.cluster else found

    def replaced_in(self, now: "ClusterTopicIds") -> dict[str, UUID]:
        """Return the topics that are others now, and their new ids."""
        if self.cluster != now.cluster:
            return {}
        return {
            topic: now.by_topic[topic]
            for topic, known in self.by_topic.items()
            if now.by_topic.get(topic, known) != known
        }

    def completed_by(self, now: "ClusterTopicIds") -> "ClusterTopicIds":
        """Return these ids, and those that only `now` has; of another cluster, only `now`'s."""
        if self.cluster != now.cluster and now.by_topic:
            return now
        return ClusterTopicIds(self.cluster, {**now.by_topic, **self.by_topic})

    def with_those_of(self, topics: Collection[str], now: "ClusterTopicIds") -> "ClusterTopicIds":
        """Return these ids, but those that `now` has for some topics."""
        changed = {each: now.by_topic[each] for each in topics if each in now.by_topic}
        return ClusterTopicIds(self.cluster, {**self.by_topic, **changed})

    def exchanged(self, new: Mapping[UUID, UUID]) -> "ClusterTopicIds":
        """Return these ids, with new ones for some."""
        return ClusterTopicIds(
            self.cluster, {topic: new.get(each, each) for topic, each in self.by_topic.items()}
        )
