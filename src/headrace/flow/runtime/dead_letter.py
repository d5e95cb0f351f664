"""Tuples that a bolt raised for, as records with the error and the tuples' origins."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from headrace.flow.runtime.record import RECORD_FIELDS, records
from headrace.flow.runtime.tuple_batch import TupleBatch

_MAX_ERROR_CHARACTERS = 2_000
_MAX_REPEATED_CHARACTERS = 200
_ROWS = 100
_BATCH_BYTES = 1024 * 1024


def dead_letters(
    topic: str, component: str, tuples: TupleBatch, error: BaseException
) -> Iterator[pa.RecordBatch]:
    """Yield a record per tuple: the tuple as JSON; headers with component, error and origin.

    A window that raised may have very many tuples, and a tuple may be large. Batches of bounded
    size take about as much memory as the tuples; a batch for each would take several times that.
    So would a long error with each of many small tuples: it is cut after the first batch.
    """
    message = f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARACTERS]
    common = _common(component, message)
    values: list[bytes] = []
    headers: list[list[dict[str, Any]]] = []
    size = 0
    for start in range(0, tuples.num_rows, _ROWS):
        part = tuples.slice(start, _ROWS)
        for columns, origin in zip(_rows(part.columns), part.origin.to_pylist(), strict=True):
            value = _encoded(json.dumps(columns, default=_as_text, ensure_ascii=False))
            values.append(value)
            headers.append([*common, *_place(origin)])
            size += len(value) + len(message)
            if size >= _BATCH_BYTES:
                yield _records(topic, values, headers)
                values, headers, size = [], [], 0
                message = message[:_MAX_REPEATED_CHARACTERS]
                common = _common(component, message)
    if values:
        yield _records(topic, values, headers)


def _common(component: str, message: str) -> list[dict[str, Any]]:
    return [
        {"key": "component", "value": component.encode()},
        {"key": "error", "value": _encoded(message)},
    ]


def _records(
    topic: str, values: list[bytes], headers: list[list[dict[str, Any]]]
) -> pa.RecordBatch:
    return records(
        topic,
        value=pa.array(values, pa.binary()),
        headers=pa.array(headers, RECORD_FIELDS.schema.field("headers").type),
    )


def _rows(columns: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return tuples as Python values.

    Python does not have all of them, and that may be just what a bolt raised for.
    """
    try:
        rows: list[dict[str, Any]] = columns.to_pylist()
    except (ValueError, OverflowError):
        values = ([_value(each, row) for row in range(len(each))] for each in columns.columns)
        names = columns.schema.names
        rows = [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
    return rows


def _value(column: pa.Array, row: int) -> Any:
    """Return a value; a time after the year 9999 as its number, one within a value as text."""
    try:
        return column[row].as_py()
    except (ValueError, OverflowError):
        if pa.types.is_temporal(column.type):
            return column[row].value
        return column.slice(row, 1).to_string()


def _place(origin: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": str(origin[f"_{name}"]).encode()}
        for name in ("topic", "partition", "offset")
        if origin[f"_{name}"] is not None
    ]


def _encoded(text: str) -> bytes:
    """Return a text as UTF-8, also one with half a surrogate pair, which UTF-8 does not have."""
    return text.encode(errors="backslashreplace")


def _as_text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
