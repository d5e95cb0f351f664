"""Appends records to `_schemas` and returns when they were read back.

Rule 1: one thread at a time. The owner holds its lock from computing a change until it is read
back, so that the next change is computed from a state that has it.
Rule 2: a leader appends a claim with a number before its first record. Every record names the claim
of its writer in a header; what was written under an earlier claim and comes after a later one does
not count (`RegistryState`, rule 2). Other registries pass the header over.
Rule 3: records that came too late are answered with what holds under their keys, so that a registry
that knows no claims, and one that reads a compacted topic, see the same.
Rule 4: after a write that failed or was not read back a leader claims again. The write may still
come into the topic, after others that were planned without it; behind a new claim it is too late.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headrace.client.error import BrokerError, ClientError, WriteFailed
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.gateway.registry.error import (
    TopicIsMirror,
    schema_too_large,
    store_failure,
    timed_out,
)
from headrace.gateway.registry.state.record import NOOP, Record, write_json, write_key
from headrace.gateway.registry.state.registry_state import NO_CLAIM, Outcome, RegistryState
from headrace.gateway.registry.store.schema_tail import CLAIM_HEADER, SchemaTail
from headrace.model.ids import TopicPartition
from headrace.records.column import HEADERS
from headrace.wire.error_code import ErrorCode

READ_BACK_SECONDS: Final = 30.0
_MOST_CORRECTIONS: Final = 500
_TOO_LARGE: Final = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("partition", pa.int32()),
    ]
)


class NotLeading(Exception):
    """Another instance has claimed the lead: what was written does not count."""


class SchemaWriter:
    """Writes as the leader. For one thread at a time."""

    def __init__(self, settings: ClientSettings, topic: str, tail: SchemaTail) -> None:
        self._settings = settings
        self._partition = TopicPartition(topic, 0)
        self._tail = tail
        self._writer: Writer | None = None
        self._term: object = None
        self._claim = NO_CLAIM

    def lead(self, term: object) -> None:
        """Claim the lead, once per term and after every failure.

        When this returns, everything before is in the state.

        Raises:
            NotLeading: another instance has claimed at the same time, or since.
            TopicIsMirror: nothing can be written here, until the topic is promoted.
            RegistryError: the cluster does not take the claim.
        """
        if term == self._term and self._tail.read(lambda state: state.claim) > self._claim:
            self._term = None
            raise NotLeading
        if term != self._term:
            self._claim = self._next_claim()
            _, offset = self._write([NOOP], f"={self._claim}".encode())
            if self._tail.outcome(offset) is Outcome.LATE:
                raise NotLeading
            self._term = term
        self._correct()

    def must_correct(self) -> bool:
        """Return whether `lead` would have something to correct. Threads: any."""
        return self._tail.read(lambda state: bool(state.keys_to_correct()))

    def _next_claim(self) -> int:
        """Return a number above those of all claims so far, also of those that compaction removed:
        it is kept, or, of a claim of an older release, was about as high as the topic's end."""
        highest = self._tail.read(lambda state: state.highest_claim)
        return max(highest + 1, self._tail.offset)

    def append(self, records: Sequence[Record]) -> int:
        """Append records and wait until they are in the state; return the last one's offset.

        Raises:
            NotLeading: another instance leads.
            RegistryError: they were not written, or not read back in time.
        """
        first, last = self._write(records, str(self._claim).encode())
        outcomes = {self._tail.outcome(offset) for offset in range(first, last + 1)}
        if outcomes != {Outcome.APPLIED}:
            self._term = None
        if Outcome.LATE in outcomes:
            raise NotLeading
        if Outcome.DUPLICATE_ID in outcomes:
            raise store_failure("Another registry has given the id to another schema: try again")
        if Outcome.UNREADABLE in outcomes:
            raise store_failure("The record cannot be read back")
        return last

    def close(self) -> None:
        if self._writer is not None:
            self._writer.abandon()
            self._writer = None

    def _correct(self) -> None:
        records = self._tail.read(_corrections)
        if not records:
            return
        first, last = self._write(records, str(self._claim).encode())
        if Outcome.LATE in {self._tail.outcome(offset) for offset in range(first, last + 1)}:
            self._term = None
            raise NotLeading

    def _write(self, records: Sequence[Record], claim: bytes) -> tuple[int, int]:
        """Write records; return the offsets of the first and the last when they were read."""
        headers = [{"key": CLAIM_HEADER, "value": claim}]
        rows = pa.record_batch(
            {
                "key": [write_key(each.key) for each in records],
                "value": [
                    None if each.value is None else write_json(each.value) for each in records
                ],
                "headers": [headers] * len(records),
                "partition": [self._partition.partition] * len(records),
            },
            schema=_SCHEMA,
        )
        term, self._term = self._term, None  # until it has been read
        last = self._send(rows)
        if not self._tail.wait_for(last, READ_BACK_SECONDS):
            raise timed_out("What was written cannot be read back in time")
        self._term = term
        return last - len(records) + 1, last

    def _send(self, rows: pa.RecordBatch) -> int:
        try:
            if self._writer is None:
                self._writer = Writer(self._settings, self._partition.topic)
            self._writer.write(rows)
            self._writer.flush()
            return self._writer.written[self._partition].last_offset
        except ClientError as error:
            self.close()
            reason = error.reason if isinstance(error, WriteFailed) else error
            if isinstance(reason, BrokerError) and reason.code in _TOO_LARGE:
                raise schema_too_large(
                    f"The schema is larger than topic {self._partition.topic} takes: raise its "
                    "max.message.bytes, or split the schema into references"
                ) from error
            if isinstance(reason, BrokerError) and reason.code is ErrorCode.policy_violation:
                raise TopicIsMirror(self._partition.topic) from error
            raise store_failure(f"The change was not written: {error}") from error


def _corrections(state: RegistryState) -> list[Record]:
    """Return the valid values of keys with late records, not too many at once."""
    found: list[Record] = []
    for key in state.keys_to_correct():
        found += state.records_of(key)
        if len(found) >= _MOST_CORRECTIONS:
            break
    return found
