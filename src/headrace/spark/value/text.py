"""Common steps for JSON and CSV values: text that Arrow reads as the lines of one file."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.spark.value.error import Undecodable

BLANKS: Final = " \t\r\n"


def trimmed_text(values: pa.Array) -> pa.Array:
    """Return values as strings without surrounding blanks.

    Raises:
        Undecodable: a value is not UTF-8, which Arrow's readers would not check.
    """
    return trimmed(text_of(values))


def text_of(values: pa.Array) -> pa.Array:
    """Return values as strings.

    Raises:
        Undecodable: a value is not UTF-8, which Arrow's readers would not check.
    """
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Undecodable("it is not UTF-8") from error


def trimmed(texts: pa.Array) -> pa.Array:
    """Return texts without surrounding blanks."""
    return pc.ascii_trim(texts, BLANKS)


def lines_of(texts: pa.Array) -> pa.Buffer:
    """Return one text with a line per value. The last line ends with a line break too: without it,
    Arrow's CSV reader takes an empty last field for a quoted one."""
    return joined(pa.concat_arrays([texts, pa.array([""])]))


def joined(texts: pa.Array) -> pa.Buffer:
    """Return one text with a line break between values."""
    ends = pa.py_buffer(np.array([0, len(texts)], np.int64))
    whole = pa.Array.from_buffers(pa.large_list(texts.type), 1, [None, ends], 0, children=[texts])
    return pc.binary_join(whole, _LINE_BREAK)[0].as_buffer()


def line_breaks(text: pa.Buffer) -> int:
    """Return how many line breaks a text has."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))


def _text_scalar(text: str) -> pa.Scalar:
    """Return a scalar without `pa.scalar`, whose first call imports pandas."""
    data = text.encode()
    ends = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(data)])[0]


_LINE_BREAK: Final = _text_scalar("\n")


def require_all(condition: Any, problem: str) -> None:
    """Check that a condition holds for every value.

    Raises:
        Undecodable: it does not.
    """
    if not pc.all(condition).as_py():
        raise Undecodable(problem)


def as_struct(table: pa.Table, rows: int, kind: pa.DataType) -> pa.Array:
    """Return the rows of a table as a column of structs.

    Raises:
        Undecodable: the table has more or fewer rows than there were values, or one does not fit.
    """
    if table.num_rows != rows:
        raise Undecodable("it holds more than one record")
    try:
        return table.to_struct_array().combine_chunks().cast(kind)
    except pa.ArrowInvalid as error:
        raise Undecodable(str(error)) from error


def with_types(kind: pa.DataType, replace: dict[pa.DataType, pa.DataType]) -> pa.DataType:
    """Return the same type with some of its parts replaced, at any depth."""
    if kind in replace:
        return replace[kind]
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(with_types(each.type, replace)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_types(kind.value_type, replace)))
    return kind
