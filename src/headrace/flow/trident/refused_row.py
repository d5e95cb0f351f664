"""Which tuples of a batch a state outside of Spark can keep.

A database refuses a whole batch for one value that it cannot keep, at every try. Such tuples are
known before the transaction begins: a record that cannot be decoded, for instance, is a tuple of
nulls, and a key cannot be null. They become dead letters, and the batch goes on without them.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import Work
from headrace.flow.trident.state import StateFactory

Rows = npt.NDArray[np.int64]


def refused_rows(
    factory: StateFactory, batch: pa.RecordBatch, keys: Sequence[str], values: Iterable[str] = ()
) -> list[tuple[Rows, Exception]]:
    """Return the rows that a state cannot keep, each once, with the reasons.

    Args:
        keys: the fields of the key.
        values: fields whose values may become those of the state.
    """
    left = np.ones(batch.num_rows, dtype=bool)
    found: list[tuple[Rows, Exception]] = []
    for name, reason, refused in _refusals(factory, batch, keys, values):
        here = left & np.asarray(refused.fill_null(False))
        if here.any():
            left &= ~here
            kind = type(factory).__name__
            error = ValueError(f"a {kind} cannot keep the {name} of this tuple: {reason}")
            found.append((np.flatnonzero(here), error))
    return found


def _refusals(
    factory: StateFactory, batch: pa.RecordBatch, keys: Sequence[str], values: Iterable[str]
) -> Iterator[tuple[str, str, pa.Array]]:
    """Yield what is refused, why, and a truth value per row."""
    for name, key in [*((name, True) for name in keys), *((name, False) for name in values)]:
        column = batch.column(name)
        for reason, refused in (*_unreadable(column), *factory.refused(column, key=key)):
            yield name, reason, refused
    for reason, refused in factory.refused_keys([batch.column(name) for name in keys]):
        yield "key", reason, refused


def kept_fields(fold: Work, values: Fields, given: pa.Schema) -> list[str]:
    """Return the fields whose texts and times a fold may put into a state as they are.

    A user's aggregator may put any text into a text of the state, and any time into a time.

    Args:
        values: the fields of the state's values.
        given: those of the tuples.
    """
    plain = [each for each in values.schema if _is_copied(each.type)]
    aggregate = getattr(fold, "aggregate", None)
    if aggregate is not None:
        measures = (aggregate.measures.get(each.name) for each in plain)
        fields = (each.field for each in measures if each is not None)
        return list(dict.fromkeys(each for each in fields if each is not None))
    kinds = [test for test in _COPIED if any(test(each.type) for each in plain)]
    inputs = getattr(fold, "inputs", ())
    return [name for name in inputs if any(test(given.field(name).type) for test in kinds)]


_COPIED = (pa.types.is_string, pa.types.is_temporal)


def _is_copied(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _COPIED)


def _unreadable(column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yield the times that Python has none for: those after the year 9999."""
    if not pa.types.is_temporal(column.type):
        return
    try:
        column.to_pylist()
    except (ValueError, OverflowError):
        yield "Python has no such time", pa.array([not _is_readable(each) for each in column])


def _is_readable(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except (ValueError, OverflowError):
        return False
    return True
