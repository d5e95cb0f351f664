"""Values that do not fit the columns of a table are refused, not cut."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.landing.row.column_set import ColumnSet
from headrace.serde.error import Undecodable

SMALL = pa.struct([("a", pa.int32())])
LARGE = pa.struct([("a", pa.int32()), ("b", pa.int32())])


def columns(kind: pa.DataType) -> ColumnSet:
    found = ColumnSet(fixed=False, reserved=())
    found.use(pa.schema([("v", kind)]))
    return found


def value(kind: pa.DataType, *values: object) -> pa.StructArray:
    return pa.array([{"v": each} for each in values], pa.struct([("v", kind)]))


@pytest.mark.parametrize(
    ("have", "kind", "kept", "cut"),
    [
        (SMALL, LARGE, {"a": 1, "b": None}, {"a": 1, "b": 2}),
        (pa.list_(SMALL), pa.list_(LARGE), [{"a": 1}], [{"a": 1}, {"a": 1, "b": 2}]),
        (
            pa.map_(pa.string(), SMALL),
            pa.map_(pa.string(), LARGE),
            [("k", {"a": 1, "b": None})],
            [("k", {"a": 1, "b": 2})],
        ),
        (
            pa.struct([("s", SMALL)]),
            pa.struct([("s", LARGE)]),
            {"s": None},
            {"s": {"a": 1, "b": 2}},
        ),
        (pa.float32(), pa.float64(), 0.5, 0.1),
        (pa.list_(pa.float32()), pa.list_(pa.float64()), [0.5, None, math.inf], [0.5, 0.1]),
    ],
)
def test_what_the_table_cannot_hold_is_refused(
    have: pa.DataType, kind: pa.DataType, kept: object, cut: object
) -> None:
    both = value(kind, cut, kept, None)

    assert columns(have).fit(both.slice(1))["v"].type == have
    with pytest.raises(Undecodable, match="its field v"):
        columns(have).fit(both)


def test_a_number_that_is_none_stays_none() -> None:
    found = columns(pa.float32()).fit(value(pa.float64(), math.nan, None))["v"].to_pylist()

    assert math.isnan(found[0])
    assert found[1] is None


@pytest.mark.parametrize(
    ("name", "kind", "found", "why"),
    [
        ("e", pa.struct([]), {}, "a record without fields"),
        ("e", pa.list_(pa.struct([])), [{}], "a record without fields"),
        ("e", pa.map_(pa.string(), pa.struct([])), [("k", {})], "a record without fields"),
        ("e", pa.struct([("in", pa.struct([]))]), {"in": {}}, "a record without fields"),
        ("big", pa.decimal256(50, 2), Decimal("1.50"), "a decimal of 50 digits"),
        ("V", pa.int32(), 1, "it differs from v only in case"),
        ("_KEY", pa.int32(), 1, "it differs from _key only in case"),
        ("s", pa.struct([("a", pa.int32()), ("A", pa.int32())]), {"a": 1}, "from a only in case"),
    ],
)
def test_a_field_that_cannot_be_a_column_does_not_alter_the_columns(
    name: str, kind: pa.DataType, found: object, why: str
) -> None:
    found_columns = ColumnSet(fixed=False, reserved=("_key",))
    found_columns.use(pa.schema([("v", pa.int32())]))
    rows = pa.array([{"v": 1, name: found}], pa.struct([("v", pa.int32()), (name, kind)]))
    without = pa.array([{"v": 1, name: None}], rows.type)

    with pytest.raises(Undecodable, match=why):
        found_columns.fit(rows)

    assert list(found_columns.fit(without)) == ["v"]
    assert list(found_columns.fields) == ["v"]


def test_new_fields_of_one_value_that_differ_only_in_case_are_refused() -> None:
    found = ColumnSet(fixed=False, reserved=())
    both = pa.array([{"a": 1, "A": 2}], pa.struct([("a", pa.int32()), ("A", pa.int32())]))

    with pytest.raises(Undecodable, match="its field A cannot be a column"):
        found.fit(both)

    assert not found.fields
