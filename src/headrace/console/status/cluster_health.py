"""How many partitions are in danger, from the cluster's metadata.

A broker's /metrics differ: they leave out replicas that are being added, and count the partitions
of a failed directory as offline. The metadata shows neither.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.admin.admin import Admin
from headrace.client.error import BrokerError
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.model.config_code import ConfigResourceType

_KEY: Final = "min.insync.replicas"
_TOPICS_PER_REQUEST: Final = 200


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """Counts over all partitions of a cluster.

    Attributes:
        leads: how many partitions each broker leads.
        under_replicated: fewer in sync than there are replicas; those below are among them.
        under_min_isr: fewer in sync than min.insync.replicas: acks=all is refused.
        offline: without a leader.
    """

    partitions: int
    leads: Counter[int]
    under_replicated: int
    under_min_isr: int
    offline: int

    @classmethod
    def of(cls, metadata: Metadata, min_isr: Mapping[str, int]) -> "ClusterHealth":
        """Count; `min_isr` has min.insync.replicas of topics with replicas out of sync."""
        leads: Counter[int] = Counter()
        partitions = under_replicated = under_min_isr = 0
        for topic in metadata.topics.values():
            least = min_isr.get(topic.name, 1)
            for each in topic.partitions.values():
                partitions += 1
                leads[each.leader] += 1
                under_replicated += each.under_replicated
                # As in the broker: a topic with fewer replicas needs all that it has.
                needed = min(least, len(each.replicas))
                under_min_isr += each.leader >= 0 and len(each.in_sync) < needed
        return cls(partitions, leads, under_replicated, under_min_isr, leads.pop(-1, 0))


def troubled_min_isr(pool: ConnectionPool, metadata: Metadata) -> dict[str, int]:
    """Return min.insync.replicas of the topics with replicas out of sync: mostly of none.

    Topics whose configuration the console may not read are left out.
    """
    troubled = [
        topic.name
        for topic in metadata.topics.values()
        if any(each.under_replicated for each in topic.partitions.values())
    ]
    found: dict[str, int] = {}
    for start in range(0, len(troubled), _TOPICS_PER_REQUEST):
        names = troubled[start : start + _TOPICS_PER_REQUEST]
        described = Admin(pool).describe_configs(ConfigResourceType.TOPIC, names)
        for name, entries in described.items():
            if isinstance(entries, BrokerError):
                continue
            for entry in entries:
                if entry.name == _KEY and entry.value:
                    found[name] = int(entry.value)
    return found
