"""Tuples as Python values: what a user's function is called with, and what it returned."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa


def rows_of(batch: pa.RecordBatch, names: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
    """Return the values of some fields, tuple by tuple."""
    if not names:
        return (() for _ in range(batch.num_rows))
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def returned_tuples(value: Any) -> Iterable[tuple[Any, ...]]:
    """Return the tuples that a function returned: None, a value, a tuple, or a list of these.

    A value that is not a tuple stands for a tuple of one field.
    """
    if value is None:
        return ()
    if isinstance(value, tuple):
        return (value,)
    if isinstance(value, str | bytes | dict) or not isinstance(value, Iterable):
        return ((value,),)
    return [each if isinstance(each, tuple) else (each,) for each in value]
