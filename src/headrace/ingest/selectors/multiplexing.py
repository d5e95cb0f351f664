"""The selector that chooses channels by the value of a header."""

from collections.abc import Mapping, Sequence

from headrace.ingest.channel import Channel
from headrace.ingest.event import EventBatch
from headrace.ingest.selector import Part, Selector
from headrace.ingest.settings import Settings, prefix, text

_Targets = tuple[tuple[Channel, ...], tuple[Channel, ...]]


class MultiplexingSelector(Selector):
    """`mapping.X` names the channels of events whose header is X, `optional.X` further channels
    that may fail, and `default` those of all other events. Without it they are dropped, as in
    Flume."""

    SETTINGS = (
        text("header", "The header that chooses.", "flume.selector.header"),
        text("default", "Channels for values without a mapping."),
        prefix("mapping", "Channels for one value."),
        prefix("optional", "Channels for one value whose failures are ignored."),
    )

    def __init__(self, name: str, settings: Settings, channels: Mapping[str, Channel]) -> None:
        super().__init__(name, settings, channels)
        self._header = settings.text("header")
        default = tuple(self._channels_of("default", settings.optional("default") or ""))
        mapping = {
            value: tuple(self._channels_of(f"mapping.{value}", names))
            for value, names in settings.below("mapping").items()
        }
        optional = {
            value: tuple(self._channels_of(f"optional.{value}", names))
            for value, names in settings.below("optional").items()
        }
        if not mapping and not default:
            raise settings.wrong(
                "mapping",
                "a multiplexing selector has neither a mapping nor a default: write mapping.VALUE",
            )
        self._default: _Targets = (default, ())
        self._targets: dict[str, _Targets] = {}
        for value in {**mapping, **optional}:
            required = mapping.get(value, default)
            extra = tuple(each for each in optional.get(value, ()) if each not in required)
            self._targets[value] = (required, extra)

    def route(self, batch: EventBatch) -> Sequence[Part]:
        shared = batch.same_headers
        if shared is not None:
            required, optional = self._find(shared)
            return [Part(each, batch) for each in required] + [
                Part(each, batch, True) for each in optional
            ]
        rows: dict[tuple[Channel, bool], list[int]] = {}
        for row, headers in enumerate(batch.headers):
            required, optional = self._find(headers)
            for channel in required:
                rows.setdefault((channel, False), []).append(row)
            for channel in optional:
                rows.setdefault((channel, True), []).append(row)
        parts = [Part(key[0], batch.pick(chosen), key[1]) for key, chosen in rows.items()]
        return sorted(parts, key=lambda part: part.optional)

    def _find(self, headers: dict[str, str]) -> _Targets:
        return self._targets.get(headers.get(self._header, ""), self._default)
