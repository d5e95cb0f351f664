"""The serializer that a setting names."""

from collections.abc import Callable, Mapping

from headrace.ingest.config.java_class import simple_name
from headrace.ingest.format.datum_serializer import CODECS, AvroDatumSerializer
from headrace.ingest.format.event_schema import EventSchemas
from headrace.ingest.format.serializer import (
    AvroEventSerializer,
    HeaderAndTextSerializer,
    Serializer,
    TextSerializer,
)
from headrace.ingest.settings import Settings, is_security_key
from headrace.model.error import ConfigError


def make_serializer(
    settings: Settings, key: str, parameters: Mapping[str, str]
) -> Callable[[], Serializer]:
    """Return how to create the serializer that a setting names; each file gets a new one.

    Raises:
        SettingError: there is no such serializer, or it does not have one of these parameters.
    """
    written = settings.text(key)
    for name in parameters:
        if is_security_key(name):
            raise settings.wrong(f"{key}.{name}", f"{key}.{name} is not supported: remove it")
    newline = parameters.get("appendNewline", "true").lower() == "true"
    codec = parameters.get("compressionCodec", "null")
    match simple_name(written).lower():
        case "text" | "bodytexteventserializer":
            return lambda: TextSerializer(newline)
        case "header_and_text" | "headerandbodytexteventserializer":
            return lambda: HeaderAndTextSerializer(newline)
        case "avro_event" | "flumeeventavroeventserializer":
            return lambda: AvroEventSerializer(codec)
        case "avroeventserializer":
            if codec not in CODECS:
                raise settings.wrong(
                    f"{key}.compressionCodec", f"there is no codec {codec!r}: {', '.join(CODECS)}"
                )
            allowed = tuple(parameters.get("allowedSchemaURLs", "").split())
            try:
                schemas = EventSchemas(parameters.get("schemaURL"), allowed)
            except ConfigError as error:
                raise settings.wrong(f"{key}.schemaURL", str(error)) from error
            return lambda: AvroDatumSerializer(schemas, codec)
    raise settings.wrong(
        key,
        f"there is no serializer {written!r}: write text, header_and_text, avro_event or "
        "org.apache.flume.sink.hdfs.AvroEventSerializer$Builder",
    )
