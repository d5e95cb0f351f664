"""Batches of a few values, encoded."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from headrace.records.encode import encode

NOW_MS = 1_700_000_000_000


@pytest.fixture
def a_batch() -> Callable[..., bytes]:
    """Return a function that builds one batch of the values given, all at the same time."""

    def build(*values: bytes | None, timestamp_ms: int = NOW_MS, **options: object) -> bytes:
        columns = pa.record_batch({"value": pa.array(values, pa.binary())})
        return encode(columns, timestamp_ms=timestamp_ms, **options).data

    return build
