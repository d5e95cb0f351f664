"""Puts records in bounded requests, and those that fail again. Pure but for the call it is given.

Rule 1: a request has at most 500 records and 5 MiB, which every version of the service accepts. A
record that is larger goes alone; the service says whether the stream allows it.
Rule 2: PutRecords fails record by record. Only the failed ones are put again, so a record that is
put again comes after later ones: the service has no order inside a PutRecords either.
Rule 3: retries are counted from the last request in which a record succeeded. A throttled stream
slows the sink down, and does not fail it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from headrace.model.error import HeadraceError
from headrace.spark.kinesis.client import Backoff

Entry = Mapping[str, Any]
"""A record as PutRecords takes it: Data, PartitionKey, and perhaps ExplicitHashKey."""

MOST_RECORDS: Final = 500
MOST_BYTES: Final = 5 * 1024 * 1024


class PutFailed(HeadraceError):
    """Records were not accepted, however often they were put."""


class PutService(Protocol):
    """What the putter needs of the API."""

    @property
    def retries(self) -> int:
        """How often to put records again of which none succeeds."""
        ...

    def put_records(self, entries: Sequence[Entry]) -> list[str | None]:
        """Put records; return for each the code of its error, or None."""
        ...

    def backoff(self) -> Backoff:
        """Return new delays."""
        ...


class RecordPutter:
    """Collects records and puts them.

    Example:
        putter = RecordPutter(service)
        putter.add({"Data": b"hello", "PartitionKey": "ada"})
        putter.flush()
    """

    def __init__(self, service: PutService, sleep: Callable[[float], None] = time.sleep) -> None:
        self._service = service
        self._sleep = sleep
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0

    def add(self, entry: Entry) -> None:
        """Add a record; put those that wait if it would not fit into their request."""
        size = len(entry["Data"]) + len(entry["PartitionKey"].encode())
        if self._waiting and self._waiting_bytes + size > MOST_BYTES:
            self.flush()
        self._waiting.append(entry)
        self._waiting_bytes += size
        if len(self._waiting) == MOST_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Put what waits, until the service has accepted each record.

        Raises:
            PutFailed: some are refused for as long as the options allow.
        """
        entries, self._waiting, self._waiting_bytes = self._waiting, [], 0
        backoff, left = self._service.backoff(), self._service.retries
        while entries:
            codes = self._service.put_records(entries)
            failed = [each for each, code in zip(entries, codes, strict=True) if code is not None]
            if not failed:
                return
            if len(failed) < len(entries):
                backoff.reset()
                left = self._service.retries
            elif not left:
                reasons = ", ".join(sorted({code for code in codes if code is not None}))
                raise PutFailed(f"{len(failed)} records were not accepted: {reasons}")
            else:
                left -= 1
            self._sleep(backoff.next_seconds())
            entries = failed
