"""Decodes the bytes of values into columns.

Rule 1: a whole column is decoded in one step. Only when that step fails is the column cut in halves
until the bad values are found, so that good data never pays for it. A decoder that finds bad values
on its way, as Avro's does, returns them as null.
Rule 2: a value that cannot be decoded is null (PERMISSIVE) or fails the read (FAILFAST). A row
never holds a part of such a value.
Rule 3: a null value, a tombstone, is null in every mode.
"""

from collections.abc import Callable
from typing import Final, NoReturn

import pyarrow as pa

from headrace.model.error import ConfigError
from headrace.spark.value.error import BadValue, Undecodable
from headrace.spark.value.format import ValueFormat

_SHOWN_BYTES: Final = 80


ColumnDecoder = Callable[[pa.Array, pa.DataType], pa.Array]
"""Decodes binary values without nulls into a column of the same length and of this type, or raises
`Undecodable`."""


def value_decoder(
    value_format: ValueFormat, kind: pa.DataType
) -> Callable[[pa.Array], pa.Array] | None:
    """Return a function that decodes a column of bytes; None when values stay bytes.

    Values that name their schemas are for `RegistryDecoding`.

    Raises:
        ConfigError: the format has no such type.
    """
    if value_format.name == "raw":
        return None
    if value_format.name in ("json", "csv"):
        _check_type(value_format.name, kind)
    decode = _column_decoder(value_format)
    return ColumnDecoding(decode, kind, value_format.name, fail_fast=value_format.fail_fast)


def _column_decoder(value_format: ValueFormat) -> ColumnDecoder:
    if value_format.name == "string":
        return _decode_strings
    if value_format.name == "json":
        from headrace.spark.value.json import decode_json

        return decode_json
    if value_format.name == "csv":
        from headrace.spark.value.csv import decode_csv

        return decode_csv
    from headrace.spark.value.avro import AvroDecoder

    assert value_format.schema is not None
    return AvroDecoder(value_format.schema, bad_as_null=not value_format.fail_fast)


class ColumnDecoding:
    """Decodes columns and handles nulls and bad values.

    Args:
        name: of the format, for errors.
        fail_fast: whether a bad value fails the read.
    """

    def __init__(
        self, decode: ColumnDecoder, kind: pa.DataType, name: str, *, fail_fast: bool
    ) -> None:
        self._decode = decode
        self._kind = kind
        self._name = name
        self._fail_fast = fail_fast

    def __call__(self, values: pa.Array) -> pa.Array:
        if values.null_count == 0:
            return self._halve(values)
        present = values.drop_null()
        decoded = self._halve(present)
        # Each valid row gets the next decoded value.
        valid = values.is_valid()
        places = pa.compute.subtract(pa.compute.cumulative_sum(valid.cast(pa.int64())), 1)
        return decoded.take(pa.compute.if_else(valid, places, pa.scalar(None, pa.int64())))

    def _halve(self, values: pa.Array) -> pa.Array:
        if len(values) == 0:
            return pa.nulls(0, self._kind)
        try:
            return self._decode(values, self._kind)
        except Undecodable as error:
            if len(values) == 1:
                return self._bad(values, error)
        middle = len(values) // 2
        halves = [self._halve(values.slice(0, middle)), self._halve(values.slice(middle))]
        return pa.concat_arrays(halves)

    def _bad(self, values: pa.Array, error: Undecodable) -> pa.Array:
        if self._fail_fast:
            self.refuse(values, self._name, self._kind, error)
        return pa.nulls(1, self._kind)

    @staticmethod
    def refuse(values: pa.Array, name: str, kind: pa.DataType, error: Undecodable) -> NoReturn:
        """Raise the error for the first of some bad values."""
        shown = bytes(values[0].as_py()[:_SHOWN_BYTES])
        raise BadValue(
            f"the value {shown!r} is no {name} of the type {kind}: {error}; "
            "to read such values as null, set the option valueMode to PERMISSIVE"
        ) from error


def _decode_strings(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise Undecodable("it is not UTF-8") from error


def _check_type(name: str, kind: pa.DataType) -> None:
    """Check that Arrow's readers can produce columns of this type.

    Raises:
        ConfigError: they cannot.
    """
    if not pa.types.is_struct(kind):
        raise ConfigError(f"valueFormat {name} makes a struct, not {kind}")
    for each in kind:
        nested = pa.types.is_nested(each.type)
        if name == "csv" and nested:
            raise ConfigError(f"valueFormat csv cannot have the nested column {each.name}")
        if pa.types.is_map(each.type):
            raise ConfigError(
                f"valueFormat json cannot decode the map {each.name}: "
                "leave values raw and use from_json"
            )
        if pa.types.is_struct(each.type):
            _check_type(name, each.type)
