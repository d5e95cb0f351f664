"""Encoding the values of topics and stores as bytes, as Samza's serdes do."""

import json
import struct
import uuid
from typing import Any

from headrace.model.error import ConfigError
from headrace.serde.codec.avro_bound import AvroBound


class Serde:
    """Base class of serdes. Implement both methods; they are never called with None.

    Spark sends the object to its workers pickled.

    Example:
        class Csv(Serde):
            def to_bytes(self, value):
                return ",".join(value).encode()

            def from_bytes(self, data):
                return data.decode().split(",")
    """

    def to_bytes(self, value: Any) -> bytes:
        """Return a value as bytes."""
        raise NotImplementedError

    def from_bytes(self, data: bytes) -> Any:
        """Return the value of bytes."""
        raise NotImplementedError


class BytesSerde(Serde):
    """Leaves bytes unchanged."""

    def to_bytes(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(
                f"{value!r} is no bytes: without a serde only bytes can be written; name one with"
                " samza.msg.serde and samza.key.serde"
            )
        return bytes(value)

    def from_bytes(self, data: bytes) -> bytes:
        return data


class StringSerde(Serde):
    """Text in UTF-8."""

    def to_bytes(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text, but its serde is string")
        return value.encode()

    def from_bytes(self, data: bytes) -> str:
        return data.decode()


class JsonSerde(Serde):
    """JSON with sorted keys: equal values have equal bytes, and a store compares bytes."""

    def to_bytes(self, value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return text.encode()

    def from_bytes(self, data: bytes) -> Any:
        return json.loads(data)


class StructSerde(Serde):
    """Numbers in big-endian bytes."""

    def __init__(self, format: str) -> None:
        self.format = format

    def to_bytes(self, value: Any) -> bytes:
        return struct.pack(self.format, value)

    def from_bytes(self, data: bytes) -> Any:
        return struct.unpack(self.format, data)[0]


class UuidSerde(Serde):
    """The 16 bytes of a UUID."""

    def to_bytes(self, value: Any) -> bytes:
        return uuid.UUID(str(value)).bytes

    def from_bytes(self, data: bytes) -> uuid.UUID:
        return uuid.UUID(bytes=data)


class AvroSerde(Serde):
    """One Avro datum without a header; `schema` is JSON.

    A value that nests too deep, or claims far more items than it has bytes, is refused with
    `Undecodable`: fastavro would overflow the stack, or fill the memory.
    """

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._parsed: Any = None
        self._bound: AvroBound | None = None

    def to_bytes(self, value: Any) -> bytes:
        import io

        from fastavro import schemaless_writer

        out = io.BytesIO()
        schemaless_writer(out, self._schema(), value)
        return out.getvalue()

    def from_bytes(self, data: bytes) -> Any:
        import io

        from fastavro import schemaless_reader

        if self._bound is None:
            self._bound = AvroBound(json.loads(self.schema))
        self._bound.check(data)
        return schemaless_reader(io.BytesIO(data), self._schema(), None)

    def _schema(self) -> Any:
        if self._parsed is None:
            from fastavro import parse_schema

            self._parsed = parse_schema(json.loads(self.schema))
        return self._parsed

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "_parsed": None, "_bound": None}


_BUILT_IN: dict[str, Serde] = {
    "bytes": BytesSerde(),
    "byte": BytesSerde(),
    "bytebuffer": BytesSerde(),
    "string": StringSerde(),
    "json": JsonSerde(),
    "jsonv2": JsonSerde(),
    "integer": StructSerde(">i"),
    "long": StructSerde(">q"),
    "double": StructSerde(">d"),
    "uuid": UuidSerde(),
}

BUILT_IN = ("string", "json", "avro", "integer", "long", "double", "bytes", "uuid")


def built_in(name: str, schema: str | None = None) -> Serde | None:
    """Return a serde by its short name or the name of Samza's factory; None if there is none.

    >>> type(built_in("org.apache.samza.serializers.StringSerdeFactory")).__name__
    'StringSerde'

    Raises:
        ConfigError: the schema of avro is missing or wrong.
    """
    short = name.rpartition(".")[2].removesuffix("Factory").removesuffix("Serde").lower()
    if short == "avro":
        return _avro(schema)
    return _BUILT_IN.get(short)


def _avro(schema: str | None) -> AvroSerde:
    if schema is None:
        raise ConfigError(
            "an avro serde needs its schema: write serializers.registry.NAME.class=avro and"
            " serializers.registry.NAME.schema={...}"
        )
    serde = AvroSerde(schema)
    try:
        serde._schema()
    except Exception as error:
        raise ConfigError(f"the schema of an avro serde cannot be read: {error}") from error
    return serde
