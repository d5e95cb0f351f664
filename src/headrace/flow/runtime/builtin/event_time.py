"""The time of tuples, in milliseconds, from a field that the user named."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields


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
