"""JSON values: of declared columns, or of columns that the first values show."""

from typing import Final

import pyarrow as pa
from pyarrow import json

from headrace.landing.row.value import ReadValues, ValueGroup, read_with_halving
from headrace.model.error import ConfigError
from headrace.spark.value.json import decode_json
from headrace.spark.value.text import lines_of, trimmed_text

_SAMPLE: Final = 10_000


class JsonReader:
    """Reads JSON objects as structs of one type. Fields that the type lacks are ignored, and fields
    that a value lacks are null.

    Args:
        kind: a struct; maps are not read.

    Raises:
        ConfigError: the type has a map.
    """

    def __init__(self, kind: pa.StructType) -> None:
        _check(kind)
        self._kind = kind

    def read(self, values: pa.BinaryArray) -> ReadValues:
        at, found, bad = read_with_halving(values, self._decode)
        return ReadValues([] if found is None else [ValueGroup(at, found)], bad)

    def _decode(self, values: pa.Array) -> pa.Array:
        found = decode_json(values, self._kind)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        return found


def inferred_columns(values: pa.BinaryArray) -> pa.Schema | None:
    """Return the columns that values show; None if none of them is an object.

    Numbers are BIGINT or DOUBLE. Times stay text: declare TIMESTAMP for them. A field that is null
    in all values is text too.
    """
    sample = values.drop_null().slice(0, _SAMPLE)
    at, lines, _ = read_with_halving(sample, _object_lines)
    if lines is None or not len(at):
        return None
    try:
        table = json.read_json(
            pa.BufferReader(lines_of(lines)),
            parse_options=json.ParseOptions(newlines_in_values=True),
        )
    except pa.ArrowInvalid as error:
        raise ConfigError(
            f"the first values do not show the columns of the table ({error}): declare them with "
            "--schema"
        ) from error
    return pa.schema([(each.name, _kept(each.type)) for each in table.schema if _has(each.type)])


def _object_lines(values: pa.Array) -> pa.Array:
    """Return the texts of values, all of which are single objects."""
    decode_json(values, pa.struct([]))
    return trimmed_text(values)


def _kept(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _kept(each.type)) for each in kind if _has(each.type)])
    if pa.types.is_list(kind):
        return pa.list_(_kept(kind.value_type))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return kind
    return pa.string()


def _has(kind: pa.DataType) -> bool:
    """Return whether a type has values: empty objects have no fields, and Parquet has no such."""
    if pa.types.is_struct(kind):
        return any(_has(each.type) for each in kind)
    return not pa.types.is_list(kind) or _has(kind.value_type)


def _check(kind: pa.DataType) -> None:
    if pa.types.is_map(kind):
        raise ConfigError("JSON values cannot be read as maps: declare a STRUCT")
    for at in range(kind.num_fields):
        _check(kind.field(at).type)
