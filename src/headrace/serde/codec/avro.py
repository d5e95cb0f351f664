"""Avro values: each is one datum without a file header."""

import io
import json
from typing import Any

from headrace.model.error import ConfigError
from headrace.schema.avro.parsed import AvroSchema
from headrace.schema.parsed import ParsedSchema
from headrace.serde.codec.avro_bound import AvroBound
from headrace.serde.codec.avro_size import has_items_without_bytes
from headrace.serde.codec.codec import Codec
from headrace.serde.error import Undecodable, Unencodable


class AvroCodec(Codec):
    """Reads and writes with fastavro, row by row. JSON is Avro's own: unions name their branch."""

    def __init__(self, schema: ParsedSchema) -> None:
        assert isinstance(schema, AvroSchema)
        self._is_bomb = has_items_without_bytes(schema.root)
        try:
            from fastavro import parse_schema
        except ImportError:
            raise ConfigError(
                "Avro values need fastavro: pip install 'headrace[schemas]'"
            ) from None
        declared = json.loads(schema.formatted("resolved"))
        self._bound = AvroBound(declared)
        self._schema = parse_schema(declared)

    def decode(self, data: bytes, indexes: tuple[int, ...] = (0,)) -> Any:
        from fastavro import schemaless_reader

        if self._is_bomb:
            raise Undecodable("its schema has arrays of items without bytes, which are not read")
        self._bound.check(data)
        source = io.BytesIO(data)
        try:
            value = schemaless_reader(source, self._schema, None)
        except Exception as error:  # bad bytes make its C code raise any exception
            raise Undecodable(f"no value of its Avro schema: {_words(error)}") from error
        if source.tell() != len(data):
            raise Undecodable(f"{len(data) - source.tell()} bytes follow the Avro value")
        return value

    def encode(self, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
        from fastavro import schemaless_writer

        target = io.BytesIO()
        try:
            schemaless_writer(target, self._schema, value, strict_allow_default=True)
        except Exception as error:  # so do values that do not fit
            raise Unencodable(f"the value does not fit its Avro schema: {_words(error)}") from error
        return target.getvalue()

    def to_json(self, data: bytes, indexes: tuple[int, ...] = (0,)) -> Any:
        from fastavro import json_writer

        value = self.decode(data)
        target = io.StringIO()
        try:
            json_writer(target, self._schema, [value])
            return json.loads(target.getvalue())
        except Exception as error:
            raise Undecodable(f"the Avro value has no JSON: {_words(error)}") from error

    def from_json(self, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
        from fastavro import json_reader

        try:
            (found,) = json_reader(io.StringIO(json.dumps(value)), self._schema)
        except Exception as error:
            raise Unencodable(
                f"the value does not fit its Avro schema: {_words(error)}; in JSON a union names "
                'its branch, as in {"string": "x"}'
            ) from error
        return self.encode(found)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
