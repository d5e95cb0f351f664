"""Where a reader is in a shard, and the offsets that Spark's checkpoint has.

A position is one text per shard, named as in the Kinesis Client Library:

- `TRIM_HORIZON`: before the oldest record;
- `AT_TIMESTAMP 1763291000000`: before the first record that arrived at this millisecond or later;
- `49590338271490256608559692538361571095921575989136588898`: after this sequence number;
- `SHARD_END`: after the last record of a closed shard.

Offsets are `{"clicks": {"CREATED": "2026-11-16T11:00:00.000Z", "shardId-000000000000": "SHARD_END",
...}}`: what a person can read in the checkpoint, and nothing else. Byte format: JSON, written by
Spark. CREATED tells a stream from a later one of its name, whose shards have the same ids.
Checkpoints of before lack it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NewType

from headrace.model.error import HeadraceError

Position = NewType("Position", str)
Positions = dict[str, Position]
"""Positions by shard id."""

Shape = dict[str, dict[str, str]]
"""Offsets as Spark stores them."""

TRIM_HORIZON: Final = Position("TRIM_HORIZON")
SHARD_END: Final = Position("SHARD_END")

_CREATED: Final = "CREATED"
_TIME: Final = "AT_TIMESTAMP "
_SEQUENCE: Final = re.compile(r"0|[1-9]\d{0,128}", re.ASCII)
_TIMED: Final = re.compile(r"AT_TIMESTAMP \d{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Where a reader is in a stream.

    Attributes:
        created: when the stream was created, as the service says; None if that is not known.
    """

    created: str | None
    shards: Positions


class BadOffset(HeadraceError):
    """A checkpoint has an offset that this source did not write."""


def at_timestamp(time_ms: int) -> Position:
    """Return the position before the first record that is not older than a time."""
    return Position(f"{_TIME}{time_ms}")


def after(sequence_number: str) -> Position:
    """Return the position after a record."""
    return Position(sequence_number)


def sequence_of(position: Position) -> int | None:
    """Return the sequence number of the last record read, or None if none was."""
    return int(position) if _SEQUENCE.fullmatch(position) else None


def iterator_request(position: Position, *, with_last: bool = False) -> dict[str, Any]:
    """Return what GetShardIterator needs to read on from a position.

    Args:
        with_last: begin with the last record that was read, if the position is after one.

    >>> iterator_request(after("49"))
    {'ShardIteratorType': 'AFTER_SEQUENCE_NUMBER', 'StartingSequenceNumber': '49'}
    """
    if position == TRIM_HORIZON:
        return {"ShardIteratorType": "TRIM_HORIZON"}
    if position.startswith(_TIME):
        moment = datetime.fromtimestamp(int(position.removeprefix(_TIME)) / 1_000, UTC)
        return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment}
    assert position != SHARD_END
    kind = "AT_SEQUENCE_NUMBER" if with_last else "AFTER_SEQUENCE_NUMBER"
    return {"ShardIteratorType": kind, "StartingSequenceNumber": str(position)}


def dump_offset(stream: str, offset: StreamOffset) -> Shape:
    """Return an offset of a stream as Spark stores it."""
    shards = {shard: str(offset.shards[shard]) for shard in sorted(offset.shards)}
    return {stream: shards if offset.created is None else {_CREATED: offset.created, **shards}}


def load_offset(stream: str, offset: Mapping[str, Any]) -> StreamOffset:
    """Return what Spark has stored.

    Raises:
        BadOffset: it is not one of this stream.
    """
    shards = offset.get(stream)
    if len(offset) != 1 or not isinstance(shards, dict):
        raise BadOffset(
            f"the checkpoint is one of {', '.join(map(str, offset)) or 'nothing'}, not of the"
            f" stream {stream}: use a new checkpointLocation"
        )
    shards = dict(shards)
    created = shards.pop(_CREATED, None)
    if not isinstance(created, str | None):
        raise BadOffset(f"the checkpoint has no valid time at which {stream} was created")
    for shard, text in shards.items():
        if not _is_position(text):
            raise BadOffset(f"the checkpoint has no valid position for {shard} of {stream}")
    return StreamOffset(created, {shard: Position(text) for shard, text in shards.items()})


def _is_position(text: object) -> bool:
    return isinstance(text, str) and (
        text in (TRIM_HORIZON, SHARD_END)
        or bool(_TIMED.fullmatch(text))
        or bool(_SEQUENCE.fullmatch(text))
    )
