"""The feature levels that all brokers of the cluster agree on (KIP-584)."""

from collections.abc import Iterable, Mapping

from headrace.cluster.feature import GROUP_VERSION, Feature
from headrace.model.clock import Clock


class FinalizedFeatures:
    """The levels, and an epoch that grows with every change. Lives on the event loop.

    Clients keep the levels with the highest epoch they have seen, so it grows over restarts too.
    """

    def __init__(self, clock: Clock) -> None:
        self.levels: Mapping[str, int] = {}
        self.epoch = 0
        self._clock = clock

    @property
    def consumer_groups(self) -> bool:
        """Whether groups of the consumer protocol (KIP-848) are served: group.version is on."""
        return GROUP_VERSION in self.levels

    def set(self, features: Iterable[Feature]) -> None:
        """Replace all levels; a feature of level 0 is switched off."""
        self.levels = {each.name: each.level for each in features if each.level > 0}
        self.epoch = max(self.epoch + 1, self._clock.wall_ms())
