"""Deserializers: they read the events of a file."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from headrace.ingest.config.java_class import simple_name
from headrace.ingest.event import EMPTY, EventBatch
from headrace.ingest.file.line_file import read_bytes_for, read_lines
from headrace.ingest.settings import Settings

_LARGEST_BLOB = 100_000_000


class Deserializer(ABC):
    """Reads one file.

    To implement: `read`, `seek`.

    Attributes:
        position: after the last event that was read; 0 is the start. Its unit is the
            deserializer's own.
        delivered: the position after the last event that reached the channel.
    """

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb")
        self.position = 0
        self.delivered = 0

    @abstractmethod
    def read(self, limit: int) -> EventBatch:
        """Read up to `limit` events; none at the end of the file."""

    def seek(self, position: int) -> None:
        """Continue after the event that ended at this position."""
        self.position = position

    def close(self) -> None:
        self.file.close()


class LineDeserializer(Deserializer):
    """Reads lines; one longer than `maxLineLength` is split."""

    def __init__(self, path: Path, longest: int) -> None:
        super().__init__(path)
        self._longest = longest

    def read(self, limit: int) -> EventBatch:
        lines = read_lines(
            self.file.fileno(),
            self.position,
            read_bytes=read_bytes_for(limit),
            longest=self._longest,
            unfinished=True,
        )
        bodies = lines.bodies
        if len(bodies) > limit:
            bodies = bodies[:limit]
            self.position += sum(map(len, bodies)) + limit
        else:
            self.position = lines.end
        return EventBatch.plain(bodies)


class BlobDeserializer(Deserializer):
    """Reads the whole file as one event; a file above `maxBlobLength` becomes several."""

    def __init__(self, path: Path, longest: int) -> None:
        super().__init__(path)
        self._longest = longest

    def read(self, limit: int) -> EventBatch:
        self.file.seek(self.position)
        body = self.file.read(self._longest)
        self.position += len(body)
        return EventBatch.plain([body]) if body else EMPTY


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
        from headrace.ingest.file.avro_deserializer import AvroDeserializer

        return lambda path: AvroDeserializer(path, schema_type)
    raise settings.wrong(
        "deserializer", f"there is no deserializer {written!r}: write LINE, AVRO or Blob"
    )
