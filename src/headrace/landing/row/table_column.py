"""What tables of both kinds can have as a column.

A column that a table takes and Parquet does not would stop the landing for good, so it is refused
before the table is changed. Names that differ only in case are refused as well: Delta has none, and
of Iceberg's most engines that read tables could not tell one from the other.
"""

from collections.abc import Mapping

import pyarrow as pa

from headrace.landing.error import LandingError
from headrace.landing.row.decoded import TIME


def table_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that both kinds of tables have for a type of values.

    Times are microseconds of UTC, times of day become whole numbers.
    """
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, table_type(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(table_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(table_type(kind.key_type), table_type(kind.item_type))
    if pa.types.is_timestamp(kind):
        return TIME
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


def why_no_column(field: pa.Field, taken: Mapping[str, str]) -> str | None:
    """Return why tables cannot have a column beside others; None if they can.

    Args:
        taken: the names of the other columns, keyed by their lower-case form.

    >>> why_no_column(pa.field("ID", pa.int32()), {"id": "id"})
    'it differs from id only in case'
    """
    other = taken.get(field.name.lower(), field.name)
    if other != field.name:
        return f"it differs from {other} only in case"
    return why_no_type(field.type)


def why_no_type(kind: pa.DataType) -> str | None:
    """Return why tables cannot hold a type, at any depth; None if they can.

    >>> why_no_type(pa.list_(pa.struct([])))
    'it has a record without fields'
    """
    if pa.types.is_struct(kind) and not kind.num_fields:
        return "it has a record without fields"
    if pa.types.is_decimal256(kind):
        return f"it has a decimal of {kind.precision} digits, and tables hold 38"
    taken: dict[str, str] = {}
    for at in range(kind.num_fields):
        each = kind.field(at)
        why = why_no_column(each, taken if pa.types.is_struct(kind) else {})
        if why is not None:
            return why
        taken[each.name.lower()] = each.name
    return None


def check_columns(columns: pa.Schema) -> None:
    """Check that a new table can have columns.

    Raises:
        LandingError: it cannot.
    """
    taken: dict[str, str] = {}
    for each in columns:
        why = why_no_column(each, taken)
        if why is not None:
            raise LandingError(
                f"a table cannot have the column {each.name}: {why}; declare others with --schema "
                "(headrace.table.schema)"
            )
        taken[each.name.lower()] = each.name
