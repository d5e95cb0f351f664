"""Events to the bytes of a file."""

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from headrace.ingest.config.java_class import simple_name
from headrace.ingest.event import Batch
from headrace.ingest.format.avro_event import SCHEMA
from headrace.ingest.settings import Settings


class Serializer(ABC):
    """Writes one file: its head, then batch after batch. To implement: `encode`."""

    SUFFIX = ""

    def head(self) -> bytes:
        """What every file begins with."""
        return b""

    @abstractmethod
    def encode(self, batch: Batch) -> bytes: ...


class TextSerializer(Serializer):
    """Bodies, a line each; headers are left out."""

    def __init__(self, newline: bool = True) -> None:
        self._end = b"\n" if newline else b""

    def encode(self, batch: Batch) -> bytes:
        return self._end.join((*batch.bodies, b""))


class HeaderAndTextSerializer(Serializer):
    """`{name=value, ...} body`, a line each, as Flume prints headers."""

    def __init__(self, newline: bool = True) -> None:
        self._end = b"\n" if newline else b""

    def encode(self, batch: Batch) -> bytes:
        parts = []
        for headers, body in batch:
            shown = ", ".join(f"{name}={value}" for name, value in headers.items())
            parts.append(b"{%s} %s%s" % (shown.encode(), body, self._end))
        return b"".join(parts)


class AvroEventSerializer(Serializer):
    """An Avro file of events with headers and body."""

    SUFFIX = ".avro"

    def __init__(self, codec: str = "null") -> None:
        import fastavro

        self._out = io.BytesIO()
        # fastavro.write's own class: the function `writer` closes the file it writes.
        self._writer = fastavro.write.Writer(self._out, fastavro.parse_schema(SCHEMA), codec)

    def head(self) -> bytes:
        return self._take()

    def encode(self, batch: Batch) -> bytes:
        for headers, body in batch:
            self._writer.write({"headers": headers, "body": body})
        self._writer.flush()
        return self._take()

    def _take(self) -> bytes:
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return data


def make_serializer(
    settings: Settings, key: str, parameters: Mapping[str, str]
) -> Callable[[], Serializer]:
    """What a setting such as `serializer` asks for: a new one for every file.

    Raises:
        SettingError: there is none of that name.
    """
    written = settings.text(key)
    newline = parameters.get("appendNewline", "true").lower() == "true"
    match simple_name(written).lower():
        case "text" | "bodytexteventserializer":
            return lambda: TextSerializer(newline)
        case "header_and_text" | "headerandbodytexteventserializer":
            return lambda: HeaderAndTextSerializer(newline)
        case "avro_event" | "flumeeventavroeventserializer":
            codec = parameters.get("compressionCodec", "null")
            return lambda: AvroEventSerializer(codec)
    raise settings.wrong(
        key, f"there is no serializer {written!r}: write text, header_and_text or avro_event"
    )
