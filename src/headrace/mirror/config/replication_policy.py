"""How a topic is called at the other side, and where it came from.

Rule 1: a topic is never copied back to a cluster that it came from: its name, or the chain of
prefixes of its name, says where it was.
"""

from dataclasses import dataclass
from typing import Final

HEARTBEATS: Final = "heartbeats"
_CHECKPOINTS: Final = "checkpoints.internal"
_OFFSET_SYNCS: Final = "mm2-offset-syncs"


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """MirrorMaker 2's two policies: names with the source's alias before them, or as they are.

    Attributes:
        keeps_names: IdentityReplicationPolicy; a loop cannot be seen by names then.

    >>> ReplicationPolicy().remote_topic("us", "clicks")
    'us.clicks'
    >>> ReplicationPolicy().source_of("eu.us.clicks")
    'eu'
    """

    separator: str = "."
    keeps_names: bool = False

    def remote_topic(self, source: str, topic: str) -> str:
        """Return the name of a topic of the source at the target."""
        if self.keeps_names and topic != HEARTBEATS:
            return topic
        return f"{source}{self.separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        """Return the alias of the cluster that a topic was copied from; None for an own one."""
        if self.keeps_names and not self._is_heartbeat(topic):
            return None
        alias, separator, rest = topic.partition(self.separator)
        return alias if separator and rest and alias else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a copied topic where it came from; None for an own one."""
        source = self.source_of(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name of a topic where it was written first."""
        while (upstream := self.upstream_topic(topic)) is not None:
            topic = upstream
        return topic

    def is_cycle(self, topic: str, target: str) -> bool:
        """Return whether a copy at `target` would go back to where the records came from."""
        source = self.source_of(topic)
        while source is not None:
            if source == target:
                return True
            topic = topic[len(source) + len(self.separator) :]
            source = self.source_of(topic)
        return False

    def checkpoints_topic(self, source: str) -> str:
        """Return the topic of a source's checkpoints, at the target."""
        return f"{source}{self.separator}{_CHECKPOINTS}"

    def offset_syncs_topic(self, other: str) -> str:
        """Return the topic of offset syncs; `other` is the cluster that it does not lie in."""
        return f"{_OFFSET_SYNCS}{self.separator}{other}{self.separator}internal"

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic is one of the mirrors' own, which is never copied."""
        return topic.endswith(f"{self.separator}{_CHECKPOINTS}") or (
            topic.startswith("mm2") and topic.endswith(f"{self.separator}internal")
        )

    def _is_heartbeat(self, topic: str) -> bool:
        return topic.endswith(f"{self.separator}{HEARTBEATS}")
