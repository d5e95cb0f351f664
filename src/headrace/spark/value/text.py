"""Common steps for JSON and CSV values: text that Arrow reads as the lines of one file."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.spark.value.error import Undecodable

BLANKS: Final = " \t\r\n"


def trimmed_text(values: pa.Array) -> pa.Array:
    """Return values as strings without surrounding blanks.

    Raises:
        Undecodable: a value is not UTF-8, which Arrow's readers would not check.
    """
    try:
        return pc.ascii_trim(values.cast(pa.string()), BLANKS)
    except pa.ArrowInvalid as error:
        raise Undecodable("it is not UTF-8") from error


def lines_of(texts: pa.Array) -> pa.Buffer:
    """Return one text with a line per value. The last line ends with a line break too: without it,
    Arrow's CSV reader takes an empty last field for a quoted one."""
    ended = pa.concat_arrays([texts, pa.array([""])])
    whole = pa.LargeListArray.from_arrays(pa.array([0, len(ended)], pa.int64()), ended)
    return pc.binary_join(whole, "\n")[0].as_buffer()


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
