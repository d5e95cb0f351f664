"""A tuple that a bolt raised for, as a record with the error and the tuple's origin."""

import json
from typing import Any

import pyarrow as pa

from headrace.flow.runtime.record import RECORD_FIELDS, records
from headrace.flow.runtime.tuple_batch import TupleBatch

_MAX_ERROR_CHARACTERS = 2_000


def dead_letter(
    topic: str, component: str, tuple_: TupleBatch, error: BaseException
) -> pa.RecordBatch:
    """Return one record: the tuple as JSON; headers with component, error and origin."""
    origin = tuple_.origin.to_pylist()[0]
    headers: list[dict[str, Any]] = [
        {"key": "component", "value": component.encode()},
        {
            "key": "error",
            "value": f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARACTERS].encode(),
        },
    ]
    headers += [
        {"key": name, "value": str(origin[f"_{name}"]).encode()}
        for name in ("topic", "partition", "offset")
        if origin[f"_{name}"] is not None
    ]
    value = json.dumps(tuple_.columns.to_pylist()[0], default=_as_text, ensure_ascii=False)
    return records(
        topic,
        value=pa.array([value.encode()], pa.binary()),
        headers=pa.array([headers], RECORD_FIELDS.schema.field("headers").type),
    )


def _as_text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
