"""The sink puts in bounded requests, and only the failed records again."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from headrace.model.error import InvalidArgument
from headrace.spark.kinesis.client import Backoff
from headrace.spark.kinesis.record_putter import Entry, PutFailed, RecordPutter
from headrace.spark.kinesis.sink import entries_of

_THROTTLED = "ProvisionedThroughputExceededException"


class Service:
    """Accepts only some of the records of a request."""

    retries = 2

    def __init__(self, accepts: int = 500) -> None:
        self.accepts = accepts
        self.requests: list[int] = []
        self.stored: list[bytes] = []

    def put_records(self, entries: Sequence[Entry]) -> list[str | None]:
        self.requests.append(len(entries))
        self.stored += [each["Data"] for each in entries[: self.accepts]]
        return [None if at < self.accepts else _THROTTLED for at in range(len(entries))]

    def backoff(self) -> Backoff:
        return Backoff(1, 8)


def entry(data: bytes) -> dict[str, Any]:
    return {"Data": data, "PartitionKey": "k"}


def test_a_request_has_at_most_500_records_and_5_mib() -> None:
    service = Service()
    putter = RecordPutter(service)
    for _ in range(1_001):
        putter.add(entry(b"small"))
    for _ in range(6):
        putter.add(entry(bytes(1024 * 1024)))
    putter.flush()

    assert service.requests == [500, 500, 5, 2]


def test_only_failed_records_are_put_again_and_slowness_is_no_failure() -> None:
    service, waits = Service(accepts=2), list[float]()
    putter = RecordPutter(service, waits.append)
    for at in range(10):
        putter.add(entry(b"%d" % at))
    putter.flush()

    assert service.requests == [10, 8, 6, 4, 2]
    assert sorted(service.stored) == [b"%d" % at for at in range(10)]
    assert all(0 < each <= 0.001 for each in waits)


def test_records_that_are_never_accepted_fail_the_task() -> None:
    service, waits = Service(accepts=0), list[float]()
    putter = RecordPutter(service, waits.append)
    putter.add(entry(b"x"))

    with pytest.raises(PutFailed, match=f"1 records were not accepted: {_THROTTLED}"):
        putter.flush()
    assert len(service.requests) == 3
    assert len(waits) == 2


def test_rows_become_records() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"partitionKey": ["a", "b"], "data": ["é", "y"], "explicitHashKey": [None, "7"]}
    )

    assert list(entries_of(rows)) == [
        {"Data": "é".encode(), "PartitionKey": "a"},
        {"Data": b"y", "PartitionKey": "b", "ExplicitHashKey": "7"},
    ]


@pytest.mark.parametrize("missing", ["data", "partitionKey"])
def test_a_row_without_data_or_key_is_refused(missing: str) -> None:
    row = {"partitionKey": ["a"], "data": ["x"]} | {missing: pa.array([None], pa.string())}

    with pytest.raises(InvalidArgument, match=f"no {missing}"):
        list(entries_of(pa.RecordBatch.from_pydict(row)))
