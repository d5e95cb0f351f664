"""The time of tuples, in milliseconds, from a field that the user named."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import TupleSource
from headrace.flow.runtime.tuple_batch import TupleBatch


def check_timestamp(fields: Fields, name: str, who: str) -> None:
    """Refuse a stream without the timestamp field, or whose field is of another type.

    Raises:
        FlowError: naming the field and the types that it may have.
    """
    fields.check_known([name], who)
    kind = fields.schema.field(name).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
        raise FlowError(
            f"{who} cannot use {name} as time: it is {kind}, not a TIMESTAMP or a BIGINT of"
            " milliseconds"
        )


def timed_rows(
    batch: pa.RecordBatch, name: str, emit: Any, source: TupleSource
) -> npt.NDArray[np.int64]:
    """Return the rows of the tuples that have a time. The others become dead letters.

    A record that cannot be decoded is a tuple of nulls, so this is no rare case.
    """
    column = batch.column(name)
    if not column.null_count:
        return np.arange(batch.num_rows)
    timed = np.asarray(column.is_valid())
    tuples = TupleBatch(batch, source.lazy_origin).take(pa.array(np.flatnonzero(~timed)))
    emit.dead_letter(tuples, ValueError(f"the timestamp {name} is null"))
    return np.flatnonzero(timed)


def event_times_ms(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """Return the time of each tuple.

    Raises:
        ValueError: a tuple has no time.
    """
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"the timestamp {name} is null")
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    return np.asarray(column.cast(pa.int64()))
