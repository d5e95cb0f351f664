"""Columns of JSON values with a JSON Schema."""

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.serde.codec.codec_factory import codec_of
from headrace.serde.error import Undecodable, Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.spark.value.json import decode_json
from headrace.spark.value.registry.avro_column import column_of
from headrace.spark.value.registry.json_schema import JsonShape, json_shape
from headrace.spark.value.registry.plain_row import plain_rows


class JsonReader:
    """Reads JSON into the reader's columns: with Arrow's reader where it can, else row by row."""

    def __init__(self, reader: RegisteredSchema) -> None:
        self._shape = json_shape(reader.parsed)

    def __call__(self, payloads: pa.Array, kind: pa.DataType) -> pa.Array:
        if self._shape.for_arrow and pa.types.is_struct(kind):
            return decode_json(payloads, kind)
        found = []
        for payload in payloads.to_pylist():
            try:
                found.append(_read(json.loads(payload), self._shape))
            except (ValueError, RecursionError) as error:
                raise Undecodable(f"it is no JSON: {error}") from error
        return column_of(found, kind)


class JsonWriter:
    """Writes rows as JSON that the schema allows. A null is left out, unless it is required."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._shape = json_shape(schema.parsed)
        self._codec = codec_of(schema.parsed)

    def __call__(self, values: pa.Array) -> pa.Array:
        found = [
            None if row is None else self._codec.encode(_write(row, self._shape))
            for row in plain_rows(values)
        ]
        return pa.array(found, pa.binary())


def _read(value: Any, shape: JsonShape) -> Any:
    """Return a value in its shape; what does not fit is for Arrow to refuse."""
    if value is None:
        return None
    match shape.name:
        case "json":
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        case "struct" if isinstance(value, dict):
            return {name: _read(value.get(name), each) for name, each in shape.inside.items()}
        case "map" if isinstance(value, dict):
            return {name: _read(each, shape.inside[""]) for name, each in value.items()}
        case "array" if isinstance(value, list):
            return [_read(each, shape.inside[""]) for each in value]
        case _:
            return value


def _write(value: Any, shape: JsonShape) -> Any:
    if isinstance(value, str) and shape.name == "json":
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Unencodable(f"a column that holds JSON has {value[:80]!r}: {error}") from error
    if isinstance(value, dict):
        known = shape.inside if shape.name == "struct" else {}
        return {
            name: _write(each, known.get(name) or shape.inside.get("") or _TEXT)
            for name, each in value.items()
            if each is not None or name in shape.required
        }
    if isinstance(value, list):
        return [_write(each, shape.inside.get("") or _TEXT) for each in value]
    return _scalar(value)


_TEXT = JsonShape("string", {})


def _scalar(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
