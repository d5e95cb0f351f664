"""The selector that sends every event to every channel."""

from collections.abc import Mapping, Sequence

from headrace.ingest.channel import Channel
from headrace.ingest.event import EventBatch
from headrace.ingest.selector import Part, Selector
from headrace.ingest.settings import Settings, text


class ReplicatingSelector(Selector):
    """The default selector. A failure of a channel in `optional` is ignored."""

    SETTINGS = (text("optional", "Channels whose failures are ignored."),)

    def __init__(self, name: str, settings: Settings, channels: Mapping[str, Channel]) -> None:
        super().__init__(name, settings, channels)
        optional = self._channels_of("optional", settings.optional("optional") or "")
        self._order = [(each, False) for each in channels.values() if each not in optional]
        self._order += [(each, True) for each in optional]

    def route(self, batch: EventBatch) -> Sequence[Part]:
        return [Part(channel, batch, optional) for channel, optional in self._order]
