"""Decodes the bytes of values into columns.

Rule 1: a whole column is decoded in one step. Only when that step fails is the column cut in halves
until the bad values are found, so that good data never pays for it. A decoder that finds bad values
on its way, as Avro's does, says which they are (`PartlyDecoded`).
Rule 2: a value that cannot be decoded is null and reported (PERMISSIVE, DROPMALFORMED), or fails
the read (FAILFAST). A row never holds a part of such a value.
Rule 3: a null value, a tombstone, is null in every mode.
"""

from collections.abc import Callable
from typing import Final, NoReturn

import numpy as np
import pyarrow as pa

from headrace.model.error import ConfigError
from headrace.spark.value.decoded import DecodedColumn, PartlyDecoded, RowNumbers, no_rows
from headrace.spark.value.error import BadValue, Undecodable
from headrace.spark.value.format import ValueFormat

_SHOWN_BYTES: Final = 80


ColumnDecoder = Callable[[pa.Array, pa.DataType], pa.Array | PartlyDecoded]
"""Decodes binary values without nulls into a column of the same length and of this type, or raises
`Undecodable`."""


def value_decoder(value_format: ValueFormat, kind: pa.DataType) -> "ColumnDecoding | None":
    """Return what decodes a column of bytes; None when values stay bytes.

    Values that name their schemas are for `RegistryDecoding`.

    Raises:
        ConfigError: the format has no such type.
    """
    if value_format.name == "raw":
        return None
    if value_format.name in ("json", "csv"):
        _check_type(value_format.name, kind)
    decode = _column_decoder(value_format, kind)
    return ColumnDecoding(decode, kind, value_format.name, fail_fast=value_format.fail_fast)


def _column_decoder(value_format: ValueFormat, kind: pa.DataType) -> ColumnDecoder:
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
    return AvroDecoder(value_format.schema, kind)


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
        return self.decode(values).values

    def decode(self, values: pa.Array) -> DecodedColumn:
        """Decode a column of bytes, in which nulls stay null.

        Raises:
            BadValue: a value that cannot be decoded, if that is to fail the read.
        """
        bad: list[RowNumbers] = []
        if values.null_count == 0:
            decoded = self._halve(values, 0, bad)
            return DecodedColumn(decoded, _joined(bad))
        decoded = self._halve(values.drop_null(), 0, bad)
        # Each valid row gets the next decoded value.
        valid = values.is_valid()
        places = pa.compute.subtract(pa.compute.cumulative_sum(valid.cast(pa.int64())), 1)
        spread = decoded.take(pa.compute.if_else(valid, places, pa.scalar(None, pa.int64())))
        rows = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
        return DecodedColumn(spread, rows[_joined(bad)])

    def _halve(self, values: pa.Array, first: int, bad: list[RowNumbers]) -> pa.Array:
        """Decode values, the first of which is in row `first`, and add the bad rows to `bad`."""
        if len(values) == 0:
            return pa.nulls(0, self._kind)
        try:
            found = self._decode(values, self._kind)
        except Undecodable as error:
            if len(values) == 1:
                return self._bad(values, first, error, bad)
        else:
            if isinstance(found, PartlyDecoded):
                return self._partly(values, found, first, bad)
            return found
        middle = len(values) // 2
        return pa.concat_arrays(
            [
                self._halve(values.slice(0, middle), first, bad),
                self._halve(values.slice(middle), first + middle, bad),
            ]
        )

    def _partly(
        self, values: pa.Array, found: PartlyDecoded, first: int, bad: list[RowNumbers]
    ) -> pa.Array:
        if self._fail_fast:
            row = int(found.bad_rows[0])
            error = Undecodable(found.problem(row))
            self.refuse(values.slice(row, 1), self._name, self._kind, error)
        bad.append(found.bad_rows + first)
        return found.values

    def _bad(
        self, values: pa.Array, first: int, error: Undecodable, bad: list[RowNumbers]
    ) -> pa.Array:
        if self._fail_fast:
            self.refuse(values, self._name, self._kind, error)
        bad.append(np.array([first], np.int64))
        return pa.nulls(1, self._kind)

    @staticmethod
    def refuse(values: pa.Array, name: str, kind: pa.DataType, error: Undecodable) -> NoReturn:
        """Raise the error for the first of some bad values."""
        shown = bytes(values[0].as_py()[:_SHOWN_BYTES])
        raise BadValue(
            f"the value {shown!r} is no {name} of the type {kind}: {error}; "
            "to read such values as null, set the option valueMode to PERMISSIVE"
        ) from error


def _joined(rows: list[RowNumbers]) -> RowNumbers:
    return np.concatenate(rows) if rows else no_rows()


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
