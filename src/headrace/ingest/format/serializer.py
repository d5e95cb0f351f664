"""Serializers: they turn events into the bytes of a file."""

import io
from abc import ABC, abstractmethod

from headrace.ingest.event import EventBatch
from headrace.ingest.format.avro_event import SCHEMA


class Serializer(ABC):
    """Encodes the content of one file: its head, then batch after batch. To implement: `encode`."""

    SUFFIX = ""

    def head(self) -> bytes:
        """Return the beginning of the file."""
        return b""

    @abstractmethod
    def encode(self, batch: EventBatch) -> bytes:
        """Return the bytes of a batch."""


class TextSerializer(Serializer):
    """Writes bodies, one per line, without headers."""

    def __init__(self, newline: bool = True) -> None:
        self._end = b"\n" if newline else b""

    def encode(self, batch: EventBatch) -> bytes:
        return self._end.join((*batch.bodies, b""))


class HeaderAndTextSerializer(Serializer):
    """Writes `{name=value, ...} body`, one per line, as Flume prints headers."""

    def __init__(self, newline: bool = True) -> None:
        self._end = b"\n" if newline else b""

    def encode(self, batch: EventBatch) -> bytes:
        parts = []
        for headers, body in batch:
            shown = ", ".join(f"{name}={value}" for name, value in headers.items())
            parts.append(b"{%s} %s%s" % (shown.encode(), body, self._end))
        return b"".join(parts)


class AvroEventSerializer(Serializer):
    """Writes an Avro file of events with headers and body."""

    SUFFIX = ".avro"

    def __init__(self, codec: str = "null") -> None:
        import fastavro

        self._out = io.BytesIO()
        # The class, because the function `fastavro.writer` closes the file that it writes.
        self._writer = fastavro.write.Writer(self._out, fastavro.parse_schema(SCHEMA), codec)

    def head(self) -> bytes:
        return self._flush()

    def encode(self, batch: EventBatch) -> bytes:
        for headers, body in batch:
            self._writer.write({"headers": headers, "body": body})
        self._writer.flush()
        return self._flush()

    def _flush(self) -> bytes:
        data = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return data
