"""Values that do not fit the columns of a table are refused, not cut."""

import math

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
