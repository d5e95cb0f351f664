"""Values of the kafka sink that name their schema in a registry."""

import json
from collections.abc import Sequence
from typing import Final

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.format.avro_event import SCHEMA
from headrace.ingest.format.event_schema import EventSchemas
from headrace.ingest.settings import Settings, flag, prefix, text
from headrace.model.error import ConfigError, HeadraceError
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.serializer import Serializer
from headrace.serde.subject_name import SubjectNameStrategy
from headrace.serde.wire_format import id_head

SCHEMA_SETTINGS: Final = (
    prefix("schema.registry", "The schema registry: url, and its login. Values get its framing."),
    text("schema.subject", "The subject of the values; else TOPIC-value."),
    flag("schema.auto.register", "Register schemas that the registry does not have.", True),
    text("schemaURL", "The Avro schema of bodies whose events name none: a file or a URL."),
    text("allowedSchemaURLs", "What the header flume.avro.schema.url may begin with."),
)
_MOST_HEADS: Final = 200
_FLUME_SCHEMA: Final = json.dumps(SCHEMA)
_NEEDS_REGISTRY: Final = ("schema.subject", "schemaURL", "allowedSchemaURLs")


class SchemaFraming:
    """Puts byte 0 and the id of its schema in front of each value.

    A body is one Avro datum, with the schema that `EventSchemas` finds; with `useFlumeEventFormat`
    a value is an AvroFlumeEvent, and has that schema.

    Threads: the sink's. It waits for the registry, once per schema and topic.
    """

    def __init__(
        self,
        registry: RegistryClient,
        schemas: EventSchemas | None,
        *,
        subject: str | None = None,
        register: bool = True,
    ) -> None:
        """`schemas` is None for Flume's own format."""
        self._registry = registry
        self._serializer = Serializer(registry)
        self._schemas = schemas
        self._subject = subject
        self._register = register
        self._heads: dict[tuple[str, str], bytes] = {}

    @classmethod
    def of(cls, settings: Settings, *, flume_format: bool) -> "SchemaFraming | None":
        """Return the framing that a sink asks for; None if it names no registry.

        Raises:
            SettingError: a key that cannot be honoured.
        """
        registry = registry_of(settings)
        if registry is None:
            for name in _NEEDS_REGISTRY:
                if settings.has(name):
                    raise settings.wrong(name, f"{name} needs schema.registry.url")
            return None
        schemas = None
        if not flume_format:
            try:
                allowed = tuple(settings.words("allowedSchemaURLs"))
                schemas = EventSchemas(settings.optional("schemaURL"), allowed)
            except ConfigError as error:
                raise settings.wrong("schemaURL", str(error)) from error
        return cls(
            registry,
            schemas,
            subject=settings.optional("schema.subject"),
            register=settings.flag("schema.auto.register"),
        )

    def frame(self, topic: str, batch: EventBatch, values: list[bytes]) -> list[bytes]:
        """Return the values of a batch with their heads.

        Raises:
            DeliveryFailed: an event has no schema, or the registry does not take it.
        """
        framed = []
        before: Headers | None = None
        head = b""
        for headers, value in zip(batch.headers, values, strict=True):
            if headers is not before:
                before, head = headers, self._head(topic, headers)
            framed.append(head + value)
        return framed

    def frame_keys(self, topic: str, keys: Sequence[bytes | None]) -> Sequence[bytes | None]:
        """Return keys as they are: only values have a schema."""
        return keys

    def close(self) -> None:
        """Give connections back."""
        self._registry.close()

    def _head(self, topic: str, headers: Headers) -> bytes:
        found = _FLUME_SCHEMA if self._schemas is None else self._schemas.text(headers)
        subject = self._subject or SubjectNameStrategy.TOPIC_NAME.subject(topic)
        key = (subject, found)
        head = self._heads.get(key)
        if head is None:
            schema = SchemaText(SchemaType.AVRO, found)
            try:
                if self._register:
                    number = self._serializer.register(subject, schema).id
                else:
                    number = self._registry.lookup(subject, schema).id
            except HeadraceError as error:
                raise DeliveryFailed(f"no schema for subject {subject}: {error}") from error
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            head = self._heads[key] = id_head(number)
        return head


def registry_of(settings: Settings) -> RegistryClient | None:
    """Return the registry that a sink names; None if it names none.

    Raises:
        SettingError: its settings cannot be used.
    """
    found = settings.below("schema.registry")
    if not found:
        return None
    try:
        return RegistryClient(
            RegistryClientSettings.of(
                {f"schema.registry.{name}": value for name, value in found.items()}
            )
        )
    except ConfigError as error:
        raise settings.wrong("schema.registry.url", str(error)) from error
