"""`SettledTopics`: the topics that need no election, so that the controller looks at each once.

The controller settles the cluster after every change that it reads, most of which are of one topic.
Whether a topic is settled depends on nothing but its record, on the brokers that are alive and on
the default for unclean elections. So a record that was found settled stays so until one of the
others changes.
"""

from collections.abc import Collection

from headrace.cluster.partition_command import settle_topic
from headrace.cluster.state import Change, ClusterState, Put
from headrace.cluster.topic import TopicRecord
from headrace.model.ids import BrokerId


class SettledTopics:
    """Remembers the records that were settled the last time. One thread."""

    def __init__(self) -> None:
        self._settled: dict[str, TopicRecord] = {}
        self._under: tuple[frozenset[BrokerId], bool] | None = None

    def changes(
        self, state: ClusterState, alive: Collection[BrokerId], *, unclean_default: bool
    ) -> list[Change]:
        """Return what `settle_topics` does, for the work of the topics that have changed."""
        under = (frozenset(alive), unclean_default)
        before = self._settled if under == self._under else {}
        settled: dict[str, TopicRecord] = {}
        changes: list[Change] = []
        for name, topic in state.topics.items():
            if before.get(name) is not topic:
                new = settle_topic(topic, under[0], unclean_default=unclean_default)
                if new is not topic:
                    # Not remembered: the commit may fail.
                    changes.append(Put(new))
                    continue
            settled[name] = topic
        self._settled, self._under = settled, under
        return changes
