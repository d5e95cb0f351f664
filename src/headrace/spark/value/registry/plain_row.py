"""Rows of a column as Python objects, with maps as dicts."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa


def plain_rows(values: pa.Array) -> list[Any]:
    """Return a column as Python objects.

    >>> plain_rows(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())))
    [{'a': 1}]
    """
    rows: list[Any] = values.to_pylist()
    convert = _converter(values.type)
    return rows if convert is None else [None if row is None else convert(row) for row in rows]


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what makes dicts of the maps inside; None where there are none."""
    if pa.types.is_map(kind):
        item = _converter(kind.item_type)
        return lambda pairs: {key: _apply(item, each) for key, each in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _converter(kind.value_type)
        return None if inner is None else lambda items: [_apply(inner, each) for each in items]
    if pa.types.is_struct(kind):
        parts = {each.name: _converter(each.type) for each in kind}
        if not any(parts.values()):
            return None
        return lambda row: {name: _apply(parts[name], each) for name, each in row.items()}
    return None


def _apply(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
