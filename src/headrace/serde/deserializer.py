"""From the bytes of a key or value to what they say, by the schema that they name."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from headrace.schema.schema import SchemaType
from headrace.serde.codec.codec import Codec
from headrace.serde.codec.schema_codec import codec_of
from headrace.serde.error import Undecodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_client import RegistryClient
from headrace.serde.wire_format import Framing, Headers, framing_of, read_indexes

_MOST_CODECS: Final = 200


@dataclass(frozen=True, slots=True)
class Decoded:
    """A value and the schema that it was written with."""

    value: Any
    schema: RegisteredSchema


class Deserializer:
    """Decodes values that name their schema.

    Args:
        subject: gives the context in which ids count, as `:.staging:`; None for the default one.

    Threads: any. The first value of a schema asks the registry.
    """

    def __init__(self, registry: RegistryClient, subject: str | None = None) -> None:
        self._registry = registry
        self._subject = subject
        self._lock = threading.Lock()
        self._codecs: OrderedDict[tuple[int, str | None], Codec] = OrderedDict()

    def decode(
        self, data: bytes, headers: Headers = (), *, key: bool = False, as_json: bool = False
    ) -> Decoded:
        """Return what a value says.

        Args:
            as_json: only what JSON has, in the form that the format lays down for it.

        Raises:
            Undecodable: the value names no schema, or is not of the one that it names.
            RegistryError: there is no such schema, or it must not be read.
            RegistryUnreachable: no registry answers.
        """
        framing = framing_of(data, headers, key=key)
        if framing is None:
            raise Undecodable("the value names no schema: it does not begin with byte 0 and an id")
        if framing.id is not None:
            schema = self._registry.schema(framing.id, self._subject)
        else:
            assert framing.guid is not None
            schema = self._registry.schema_of_guid(framing.guid)
        payload, indexes = payload_of(data, framing, schema.type)
        codec = self.codec(schema)
        value = codec.to_json(payload, indexes) if as_json else codec.decode(payload, indexes)
        return Decoded(value, schema)

    def codec(self, schema: RegisteredSchema) -> Codec:
        """Return the codec of a schema, which is made once."""
        key = (schema.id, schema.guid)
        with self._lock:
            found = self._codecs.get(key)
            if found is not None:
                self._codecs.move_to_end(key)
                return found
        made = codec_of(schema.parsed)
        with self._lock:
            self._codecs[key] = made
            if len(self._codecs) > _MOST_CODECS:
                self._codecs.popitem(last=False)
        return made


def payload_of(
    data: bytes, framing: Framing, schema_type: SchemaType
) -> tuple[bytes, tuple[int, ...]]:
    """Return a value without its framing, and the indexes of its message in Protobuf.

    Raises:
        Undecodable: the indexes are cut off.
    """
    if schema_type is not SchemaType.PROTOBUF:
        return data[framing.payload_at :], (0,)
    indexes, end = read_indexes(framing.indexed, framing.indexes_at)
    return data[0 if framing.in_header else end :], indexes
