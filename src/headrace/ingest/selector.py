"""Which channels events go to."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.ingest.channel import Channel
from headrace.ingest.component import Component
from headrace.ingest.event import Batch
from headrace.ingest.settings import Settings


class Part(NamedTuple):
    """Some events of a batch, and the channel they go to.

    A failure of an `optional` channel is only counted: its events are not tried again.
    """

    channel: Channel
    batch: Batch
    optional: bool = False


class Selector(Component, ABC):
    """Sends the events of a batch to channels of its source.

    To implement: `route`. Named as `selector.type = module:Class`.

    Required parts come before optional ones.
    """

    def __init__(self, name: str, settings: Settings, channels: Mapping[str, Channel]) -> None:
        super().__init__(name, settings)
        self.channels = channels

    @abstractmethod
    def route(self, batch: Batch) -> Sequence[Part]: ...

    def _channels_of(self, key: str, text: str) -> list[Channel]:
        """The channels a setting names.

        Raises:
            SettingError: one is not a channel of this source.
        """
        found = []
        for name in text.split():
            channel = self.channels.get(name)
            if channel is None:
                raise self.settings.wrong(
                    key,
                    f"the selector names channel {name}, which is not among the channels of its "
                    f"source ({', '.join(self.channels)}): add it there or name one of those",
                )
            found.append(channel)
        return found
