"""Writes the records by which an instance proves that its view of the streams is fresh.

Rule 1: a lease record says nothing. It counts when it is read back: a reader gets only what all
in-sync replicas have. A leader that was cut off can answer fetches and ListOffsets for as long as
no one tells it that it was deposed; it cannot bring a new record to its followers.
Rule 2: records are written on demand, one at a time, and everyone who waits shares the next one.
However many puts there are, there are about two records per second, and none when there was no put
for `WARM_SECONDS`.
"""

import os
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Final

import pyarrow as pa
import structlog

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.batch_writer import BatchWriter
from headrace.gateway.kinesis.store.broker_order import BrokerOrder
from headrace.gateway.kinesis.store.instance_watch import INSTANCE_BYTES
from headrace.gateway.kinesis.store.lease import LeaseDemand, lease_clock
from headrace.gateway.kinesis.store.stream_topic import LEASE_NAME, STREAM_PARTITION
from headrace.records.encode import encode

log = structlog.get_logger()

_RETRY_SECONDS: Final = 0.2
_REQUEST_TIMEOUT_MS: Final = 2_000
_KEPT: Final = 16
_SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])


class LeaseWriter:
    """A thread that appends a lease record whenever a fresher view is wanted.

    Threads: `want` may be called in any, `sent_at` in one.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._brokers = BrokerOrder(
            replace(
                settings,
                api_timeout_ms=1,  # the next record is as good as this one sent again
                request_timeout_ms=min(settings.request_timeout_ms, _REQUEST_TIMEOUT_MS),
            )
        )
        self.instance = os.urandom(INSTANCE_BYTES)
        """What the records of this instance begin with."""

        self._number = 0
        self._sent: OrderedDict[bytes, float] = OrderedDict()
        self._last_sent = float("-inf")
        self._demand = LeaseDemand()
        self._ready = threading.Condition()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="kinesis-lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._ready:
            self._stopping = True
            self._ready.notify()
        self._thread.join(timeout=10)

    @property
    def written(self) -> float:
        """When the last record that a leader acknowledged was sent."""
        return self._demand.written

    def want(self, at: float) -> None:
        """Have a record written that is sent at this moment of `lease_clock` or later."""
        self._demand.used = lease_clock()
        if at <= self._last_sent:  # it is on its way; the thread sends another one if it fails
            return
        with self._ready:
            self._demand.wanted = max(self._demand.wanted, at)
            self._ready.notify()

    def sent_at(self, value: bytes) -> float | None:
        """Return when this instance sent a lease record, or None if it is another's."""
        with self._ready:
            return self._sent.get(value)

    def _run(self) -> None:
        while not self._stopping:
            try:
                with ConnectionPool(self._brokers.settings) as pool:
                    writer = BatchWriter(pool)
                    while self._wait():
                        self._write(writer)
                        self._brokers.learn(pool)
            except Exception as error:  # noqa: BLE001 - without this thread no put is acknowledged
                self._report(error)
                self._brokers.turn()
                time.sleep(_RETRY_SECONDS)

    def _wait(self) -> bool:
        """Wait until a record is due; return whether there is to be another one."""
        with self._ready:
            while not self._stopping:
                seconds = self._demand.seconds_to_wait(lease_clock())
                if seconds == 0.0:
                    return True
                self._ready.wait(seconds)
            return False

    def _write(self, writer: BatchWriter) -> None:
        self._number += 1
        value = self.instance + self._number.to_bytes(8, "big")
        rows = {"key": [LEASE_NAME.encode()], "value": [value]}
        [batch] = encode(
            pa.record_batch(rows, schema=_SCHEMA), timestamp_ms=time.time_ns() // 1_000_000
        ).batches
        sent = lease_clock()
        with self._ready:
            self._sent[value] = sent
            if len(self._sent) > _KEPT:
                self._sent.popitem(last=False)
        self._last_sent = sent
        outcome = writer.write({STREAM_PARTITION: batch})[STREAM_PARTITION]
        if isinstance(outcome, ClientError):
            raise outcome
        self._demand.written = sent
        if self._failing:
            self._failing = False
            log.info("kinesis_lease_written_again")

    def _report(self, error: Exception) -> None:
        """Log the first failure of an outage; `_write` logs its end."""
        if not self._failing and not self._stopping:
            self._failing = True
            log.warning("kinesis_lease_not_written", error=repr(error))
