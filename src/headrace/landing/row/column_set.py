"""The columns of a table as its records show them: new ones are added, types stay."""

import pyarrow as pa
import pyarrow.compute as pc

from headrace.landing.error import LandingError
from headrace.landing.row.decoded import times_in_range
from headrace.landing.row.table_column import table_type, why_no_column
from headrace.serde.error import Undecodable


class ColumnSet:
    """The columns that come from values.

    Args:
        fixed: whether fields that are no columns are left out, instead of becoming new columns.
        reserved: names that values must not have, because the table uses them itself.
    """

    def __init__(self, *, fixed: bool, reserved: tuple[str, ...]) -> None:
        self.fields: dict[str, pa.Field] = {}
        self._fixed = fixed
        self._reserved = reserved

    def use(self, schema: pa.Schema) -> None:
        """Take the columns of a table or a declaration.

        Raises:
            LandingError: a column is there with another type.
        """
        for each in schema:
            if each.name in self._reserved:
                continue
            have = self.fields.get(each.name)
            if have is not None and have.type != each.type:
                raise LandingError(
                    f"the column {each.name} is {each.type} in the table, not {have.type}: "
                    "declare it so, or name another table"
                )
            self.fields[each.name] = pa.field(each.name, each.type)

    def declare(self, schema: pa.Schema) -> None:
        """Take declared columns.

        Raises:
            LandingError: one has a reserved name.
        """
        for each in schema:
            if each.name in self._reserved:
                raise LandingError(f"values cannot have the column {each.name}: the table has it")
        self.use(schema)

    def fit(self, values: pa.StructArray) -> dict[str, pa.Array]:
        """Return a column per field of structs. Fields that are new become columns; one that cannot
        be a column is left out as long as it is null.

        Raises:
            Undecodable: a field does not fit its column, or cannot be one.
        """
        found: dict[str, pa.Array] = {}
        new: dict[str, pa.Field] = {}
        taken: dict[str, str] = {}
        for at, each in enumerate(values.type):
            name = each.name
            have = self.fields.get(name)
            if name in self._reserved:
                raise Undecodable(f"its field {name} has a name that the table needs itself")
            if have is None and self._fixed:
                continue
            kind = table_type(each.type) if have is None else have.type
            column = pc.struct_field(values, [at])
            if have is None:
                taken = taken or {each.lower(): each for each in (*self._reserved, *self.fields)}
                why = why_no_column(pa.field(name, kind), taken)
                if why is not None and column.null_count == len(column):
                    continue
                if why is not None:
                    raise Undecodable(f"its field {name} cannot be a column: {why}")
                taken[name.lower()] = name
            try:
                found[name] = column if column.type == kind else column.cast(kind)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise Undecodable(
                    f"its field {name} is {each.type}, and the table has {kind}: {error}"
                ) from error
            _check_whole(column, found[name], name)
            _check_times(found[name], name)
            if have is None:
                new[name] = pa.field(name, kind)
        self.fields |= new
        return found


def _check_whole(column: pa.Array, kept: pa.Array, name: str) -> None:
    """Check that a cast has left out nothing: Arrow drops fields of structs, and rounds floats.

    A nested field that the table lacks may be there as long as it is null.

    Raises:
        Undecodable: something is missing.
    """
    kind, want = column.type, kept.type
    if kind == want:
        return
    if pa.types.is_struct(kind) and pa.types.is_struct(want):
        for at, each in enumerate(kind):
            inner, place = pc.struct_field(column, [at]), want.get_field_index(each.name)
            if place >= 0:
                _check_whole(inner, pc.struct_field(kept, [place]), f"{name}.{each.name}")
            elif inner.null_count < len(inner):
                raise Undecodable(f"its field {name} has {each.name}, which the table's lacks")
    elif pa.types.is_list(kind) and pa.types.is_list(want):
        _check_whole(column.flatten(), kept.flatten(), name)
    elif pa.types.is_map(kind) and pa.types.is_map(want):
        _check_whole(_entries(column, column.keys), _entries(kept, kept.keys), name)
        _check_whole(_entries(column, column.items), _entries(kept, kept.items), name)
    elif pa.types.is_float64(kind) and pa.types.is_float32(want):
        same = pc.or_(pc.equal(column, kept.cast(kind)), pc.is_nan(column))
        if not pc.all(same, min_count=0).as_py():
            raise Undecodable(f"its field {name} is double, and the table's float would round it")


def _entries(column: pa.MapArray, part: pa.Array) -> pa.Array:
    """Return the keys or items of a map's own rows: of a slice, Arrow returns those of all."""
    first, past = column.offsets[0].as_py(), column.offsets[-1].as_py()
    return part.slice(first, past - first)


def _check_times(column: pa.Array, name: str) -> None:
    """Check that tables can hold the times of a column, at any depth.

    Raises:
        Undecodable: they cannot.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        for each in column.flatten():
            _check_times(each, name)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        inner = column.flatten() if pa.types.is_list(kind) else _entries(column, column.items)
        _check_times(inner, name)
    elif (pa.types.is_timestamp(kind) or pa.types.is_date(kind)) and (
        times_in_range(column) is not None
    ):
        raise Undecodable(f"its field {name} has a time beyond the years 1 to 9999")
