"""The options of keys or values with schemas: `valueFormat`, `valueSubject`, `schema.registry.*`.

Rule 1: a format with a registry needs `schema.registry.url`; without it, json, csv and avro values
are what `valueSchema` says, as before.
Rule 2: what can hold a password is left out of every text and error.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from headrace.model.error import ConfigError
from headrace.schema.schema import SchemaType
from headrace.serde.registry_client_settings import REGISTRY_CONFIG, URL, RegistryClientSettings
from headrace.spark.option_text import OptionText, wrong

REGISTRY_FORMATS: Final = ("avro", "protobuf", "json")
REGISTRY_OPTIONS: Final = {key: REGISTRY_CONFIG.keys[key].doc for key in REGISTRY_CONFIG.keys}
"""How the schema registry is reached, with what each option means."""

RegistryTexts = tuple[tuple[str, str], ...]
_VERSION_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryFormat:
    """How the keys or values of one read or write name their schemas. It pickles.

    Attributes:
        side: `value` or `key`: what the options begin with.
        format: avro, protobuf or json.
        subject: whose schema is read or written; None on a write to many topics.
        version: of the subject; None for the latest.
        message: of a Protobuf schema, by its full name; None for the first.
        registry: what `RegistryClientSettings.of` takes.
        schema_id: the schema that values are resolved to, once it is known.
    """

    side: str
    format: str
    subject: str
    version: int | None = None
    message: str | None = None
    registry: RegistryTexts = field(repr=False)
    schema_id: int | None = None

    @property
    def type(self) -> SchemaType:
        return SchemaType(self.format.upper())

    def pinned(self, schema_id: int) -> "RegistryFormat":
        return replace(self, schema_id=schema_id)


def registry_texts(texts: OptionText) -> RegistryTexts:
    """Return the options of the registry; empty without `schema.registry.url`.

    Raises:
        ConfigError: a value that an option cannot have, or a login without a URL.
    """
    found = {name: text for name in REGISTRY_OPTIONS if (text := texts.get(name)) is not None}
    if not found:
        return ()
    RegistryClientSettings.of(found)  # reports wrong values now, on the driver
    return tuple(sorted(found.items()))


def read_registry_format(
    texts: OptionText, side: str, format_name: str, topic: str | None
) -> RegistryFormat | None:
    """Return how keys or values name their schemas; None if they name none.

    Args:
        format_name: what the option `valueFormat` or `keyFormat` says.
        topic: from which the subject gets its name; None if there are several.

    Raises:
        ConfigError: names the option and what to write instead.
    """
    registry = registry_texts(texts)
    own = (f"{side}Subject", f"{side}Version", f"{side}Message")
    if format_name not in REGISTRY_FORMATS or not registry:
        if format_name == "protobuf" or (side == "key" and format_name in REGISTRY_FORMATS):
            raise ConfigError(
                f"{side}Format {format_name} needs the option {URL}, "
                f"as in {URL}=http://127.0.0.1:8081"
            )
        for name in own:
            if name in texts:
                raise ConfigError(
                    f"option {name} is for values with a schema in a registry: set {URL} and "
                    f"{side}Format to one of {', '.join(REGISTRY_FORMATS)}"
                )
        return None
    subject = texts.get(own[0]) or (f"{topic}-{side}" if topic else None)
    if subject is None:
        raise ConfigError(
            f"with several topics, or a pattern, the option {own[0]} must name the subject of the "
            "schema"
        )
    message = texts.get(own[2])
    if message is not None and format_name != "protobuf":
        raise wrong(own[2], message, "it names a message of Protobuf; leave it out")
    return RegistryFormat(
        side=side,
        format=format_name,
        subject=subject,
        version=texts.number(own[1], 1, _VERSION_MAX),
        message=message,
        registry=registry,
    )
