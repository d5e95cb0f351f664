"""From a value to bytes that name its schema."""

import threading
import time
from collections import OrderedDict
from typing import Any, Final

from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.codec.codec import Codec
from headrace.serde.codec.codec_factory import codec_of
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.wire_format import id_head, write_indexes

_MOST_KEPT: Final = 200
# How long the latest version of a subject counts as such.
_LATEST_SECONDS: Final = 30.0


class Serializer:
    """Encodes values in the common framing: byte 0, the schema's id, the payload.

    Threads: any. Whatever is asked of the registry is kept, the latest versions for half a minute.
    """

    def __init__(self, registry: RegistryClient) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._codecs: OrderedDict[ParsedSchema, Codec] = OrderedDict()
        self._latest: OrderedDict[str, tuple[float, RegisteredSchema]] = OrderedDict()
        self._registered: OrderedDict[tuple[str, SchemaText], RegisteredSchema] = OrderedDict()

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject.

        Raises:
            RegistryError: 40401, there is none.
            RegistryUnreachable: no registry answers.
        """
        now = time.monotonic()
        with self._lock:
            kept = self._latest.get(subject)
        if kept is not None and now - kept[0] < _LATEST_SECONDS:
            return kept[1]
        found = self._registry.version(subject)
        with self._lock:
            self._latest[subject] = (now, found)
            _shrink(self._latest)
        return found

    def register(self, subject: str, text: SchemaText) -> RegisteredSchema:
        """Register a schema, unless it is there, and return it.

        Raises:
            RegistryError: it is no schema, or not compatible.
            RegistryUnreachable: no registry answers.
        """
        key = (subject, text)
        with self._lock:
            found = self._registered.get(key)
        if found is None:
            found = self._registry.register(subject, text)
            with self._lock:
                self._registered[key] = found
                _shrink(self._registered)
        return found

    def encode(
        self,
        value: Any,
        schema: RegisteredSchema,
        indexes: tuple[int, ...] = (0,),
        *,
        from_json: bool = False,
    ) -> bytes:
        """Return the framed bytes of a value.

        Args:
            indexes: of the message, in Protobuf.
            from_json: the value is in the form that the format lays down for JSON.

        Raises:
            Unencodable: the value does not fit.
        """
        codec = self._codec(schema)
        payload = codec.from_json(value, indexes) if from_json else codec.encode(value, indexes)
        head = id_head(schema.id)
        if schema.type is SchemaType.PROTOBUF:
            head += write_indexes(indexes)
        return head + payload

    def _codec(self, schema: RegisteredSchema) -> Codec:
        # Not its id: another context may have it, too.
        key = schema.parsed
        with self._lock:
            found = self._codecs.get(key)
        if found is None:
            found = codec_of(schema.parsed)
            with self._lock:
                self._codecs[key] = found
                _shrink(self._codecs)
        return found


def _shrink(kept: OrderedDict[Any, Any]) -> None:
    if len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
