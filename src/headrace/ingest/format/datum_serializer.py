"""Avro files of bodies that are Avro already: Flume's AvroEventSerializer of its HDFS sink.

Byte format: `Obj` 01, a map with `avro.schema` and `avro.codec`, 16 bytes of a marker; then blocks:
their number of data, their size, the data, the marker. Each batch is a block.
"""

import bz2
import json
import os
import zlib
from collections.abc import Callable, Mapping
from typing import Final

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.format.avro_event import encode_long
from headrace.ingest.format.event_schema import EventSchemas
from headrace.ingest.format.serializer import Serializer

_MAGIC: Final = b"Obj\x01"


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


CODECS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _deflated,
    "bzip2": bz2.compress,
}


class AvroDatumSerializer(Serializer):
    """Writes bodies as they are; the first event of a file says the schema of all.

    A file has one schema. Flume writes an event of another one into it, where it cannot be read;
    here it is not delivered. Let the path hold the schema: `%{flume.avro.schema.url}`.
    """

    SUFFIX = ".avro"

    def __init__(self, schemas: EventSchemas, codec: str = "null") -> None:
        self._schemas = schemas
        self._codec = codec
        self._schema: object = None
        self._marker = os.urandom(16)

    def encode(self, batch: EventBatch) -> bytes:
        if not len(batch):
            return b""
        schema, text = self._one_schema(batch)
        head = b""
        if self._schema is None:
            head = _head(text, self._codec, self._marker)
        data = CODECS[self._codec](b"".join(batch.bodies))
        block = (encode_long(len(batch)), encode_long(len(data)), data, self._marker)
        self._schema = schema
        return head + b"".join(block)

    def _one_schema(self, batch: EventBatch) -> tuple[object, str]:
        """Return the schema of all events, parsed and as text."""
        before: Headers | None = None
        found, first = self._schema, ""
        last_text: str | None = None
        for headers in batch.headers:
            if headers is before:
                continue
            before = headers
            text = self._schemas.text(headers)
            if text == last_text:
                continue
            last_text = text
            try:
                schema = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DeliveryFailed(f"the schema of an event is no JSON: {error}") from error
            if found is None:
                found, first = schema, text
            elif schema != found:
                raise DeliveryFailed(
                    "an event has another Avro schema than its file: let the path hold the schema, "
                    "as %{flume.avro.schema.url}"
                )
        return found, first


def _head(schema: str, codec: str, marker: bytes) -> bytes:
    parts = [_MAGIC, encode_long(2)]
    for text in ("avro.schema", schema, "avro.codec", codec):
        data = text.encode()
        parts += (encode_long(len(data)), data)
    return b"".join((*parts, b"\0", marker))
