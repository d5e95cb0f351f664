"""The selector that sends each batch to one channel, in turn."""

import itertools
import random
from collections.abc import Mapping, Sequence

from headrace.ingest.channel import Channel
from headrace.ingest.event import EventBatch
from headrace.ingest.selector import Part, Selector
from headrace.ingest.settings import Settings, text


class LoadBalancingSelector(Selector):
    """Spreads batches, not events: the events of a batch stay together."""

    SETTINGS = (text("policy", "How to choose.", "round_robin", choices=("round_robin", "random")),)

    def __init__(self, name: str, settings: Settings, channels: Mapping[str, Channel]) -> None:
        super().__init__(name, settings, channels)
        self._list = list(channels.values())
        self._cycle = itertools.cycle(self._list)
        self._random = settings.text("policy") == "random"

    def route(self, batch: EventBatch) -> Sequence[Part]:
        channel = random.choice(self._list) if self._random else next(self._cycle)
        return [Part(channel, batch)]
