"""What the regular expressions of a KIP-848 group were last matched with.

Matching takes milliseconds per expression when there are thousands of topics, and a group may have
an expression per member. So an expression is matched again only when its result may be another one.

Rule 1: other names of topics, or other rights of clients, concern every expression.
Rule 2: a member that joins, subscribes otherwise, goes or logs in with other rights concerns the
        expression that it had and the one that it has.
"""

from collections.abc import Collection
from typing import NamedTuple

from headrace.groups.topic import TopicRights, TopicSource


class SeenTopics(NamedTuple):
    """Topics and rights at one moment.

    Attributes:
        version: of the topics; it also moves with their leaders.
        names: the same object until a topic appears or goes.
        rights_version: None without an authorizer.
    """

    version: int
    names: Collection[str]
    rights_version: int | None

    @classmethod
    def of(cls, topics: TopicSource, rights: TopicRights | None) -> "SeenTopics":
        return cls(topics.version, topics.names(), None if rights is None else rights.version)

    def matches_like(self, other: "SeenTopics | None") -> bool:
        """Return whether expressions match the same as they did then (rule 1)."""
        return (
            other is not None
            and self.names is other.names
            and self.rights_version == other.rights_version
        )
