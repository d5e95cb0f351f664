"""Which deserializer the settings of a source name."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from headrace.ingest.config.java_class import simple_name
from headrace.ingest.file.avro_deserializer import AvroDeserializer
from headrace.ingest.file.deserializer import BlobDeserializer, Deserializer, LineDeserializer
from headrace.ingest.settings import Settings

_LARGEST_BLOB: Final = 100_000_000


def make_deserializer(settings: Settings) -> Callable[[Path], Deserializer]:
    """Return how to open a file with the deserializer that the settings name.

    Raises:
        SettingError: there is no such deserializer.
    """
    written = settings.text("deserializer")
    kind = simple_name(written).removesuffix("Deserializer").upper()
    parameters = settings.below("deserializer")

    def number(key: str, default: int) -> int:
        text = parameters.get(key, str(default))
        if not text.isdigit() or not int(text):
            raise settings.wrong(
                f"deserializer.{key}", f"deserializer.{key} is {text!r}: write a number"
            )
        return int(text)

    if kind == "LINE":
        longest_line = number("maxLineLength", 2048)
        return lambda path: LineDeserializer(path, longest_line)
    if kind == "BLOB":
        longest = number("maxBlobLength", _LARGEST_BLOB)
        return lambda path: BlobDeserializer(path, longest)
    if kind == "AVRO":
        schema_type = parameters.get("schemaType", "HASH").upper()
        return lambda path: AvroDeserializer(path, schema_type)
    raise settings.wrong(
        "deserializer", f"there is no deserializer {written!r}: write LINE, AVRO or Blob"
    )
