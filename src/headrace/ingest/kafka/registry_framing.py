"""How the keys and values of a kafka sink name their schemas in a registry."""

from collections.abc import Sequence
from typing import Final, Protocol

from headrace.ingest.event import EventBatch
from headrace.ingest.kafka.connect_framing import ConnectFraming
from headrace.ingest.kafka.schema_framing import SCHEMA_SETTINGS, SchemaFraming, registry_of
from headrace.ingest.settings import Settings, text
from headrace.schema.schema import SchemaType

FRAMING_SETTINGS: Final = (
    *SCHEMA_SETTINGS,
    text(
        "schema.converter",
        "Keys and values are Connect's JSON with schemas: write them as avro or json.",
        choices=("avro", "json"),
    ),
)
_OF_BODIES: Final = ("schemaURL", "allowedSchemaURLs")


class RegistryFraming(Protocol):
    """Puts the ids of schemas in front of keys and values."""

    def frame(self, topic: str, batch: EventBatch, values: list[bytes]) -> Sequence[bytes | None]:
        """Return the values of a batch with their heads; None is a record without a value.

        Raises:
            DeliveryFailed: an event has no schema, or the registry does not take it.
        """

    def frame_keys(self, topic: str, keys: Sequence[bytes | None]) -> Sequence[bytes | None]:
        """Return keys as they are written.

        Raises:
            DeliveryFailed: as `frame` does.
        """

    def close(self) -> None:
        """Give connections back."""


def registry_framing(settings: Settings, *, flume_format: bool) -> RegistryFraming | None:
    """Return the framing that a sink asks for; None if it names no registry.

    Raises:
        SettingError: a key that cannot be honoured.
    """
    converter = settings.optional("schema.converter")
    if converter is None:
        return SchemaFraming.of(settings, flume_format=flume_format)
    registry = registry_of(settings)
    if registry is None:
        raise settings.wrong("schema.converter", "schema.converter needs schema.registry.url")
    if flume_format:
        raise settings.wrong(
            "schema.converter", "schema.converter and useFlumeEventFormat exclude each other"
        )
    for name in _OF_BODIES:
        if settings.has(name):
            raise settings.wrong(
                name, f"{name} has no place beside schema.converter: events carry their schemas"
            )
    return ConnectFraming(
        registry,
        SchemaType.AVRO if converter == "avro" else SchemaType.JSON,
        subject=settings.optional("schema.subject"),
        register=settings.flag("schema.auto.register"),
    )
