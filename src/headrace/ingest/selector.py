"""The base class of selectors, which choose the channels of an event."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.ingest.channel import Channel
from headrace.ingest.component import Component
from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings


class Part(NamedTuple):
    """Some events of a batch, and the channel they go to.

    A failure of an `optional` channel is logged; its events are not retried.
    """

    channel: Channel
    batch: EventBatch
    optional: bool = False


class Selector(Component, ABC):
    """Sends the events of a batch to channels of its source.

    To implement: `route`. A configuration names it as `selector.type = module:Class`.
    """

    def __init__(self, name: str, settings: Settings, channels: Mapping[str, Channel]) -> None:
        super().__init__(name, settings)
        self.channels = channels

    @abstractmethod
    def route(self, batch: EventBatch) -> Sequence[Part]:
        """Return which events go to which channels, required parts before optional ones."""

    def _channels_of(self, key: str, text: str) -> list[Channel]:
        """Return the channels that a setting names.

        Raises:
            SettingError: a name is no channel of this source.
        """
        named = []
        for name in text.split():
            channel = self.channels.get(name)
            if channel is None:
                raise self.settings.wrong(
                    key,
                    f"the selector names channel {name}, which is not among the channels of its "
                    f"source ({', '.join(self.channels)}): add it there or name one of those",
                )
            named.append(channel)
        return named
