"""Which shards a stream reads next: children after their parents, nothing twice. Pure.

Rule 1: a shard is read in a micro-batch only if each of its parents was at its end when the
micro-batch began. Tasks of one micro-batch run at once; so a key's records stay in order.
Rule 2: a shard that is listed and has no position is new, and is read from its first record:
resharding made it after the query began. Unless a descendant has a position: then it was read
before, and its position was removed by rule 3 while the service did not list it.
Rule 3: a position stays as long as the service lists the shard. A shard that is gone before its end
was read is a loss, which the caller reports.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.spark.kinesis.position import SHARD_END, TRIM_HORIZON, Position, Positions


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as ListShards returns it.

    Attributes:
        start: its StartingSequenceNumber.
    """

    id: str
    parents: tuple[str, ...] = ()
    is_open: bool = True
    start: str = ""


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a listing means for positions.

    Attributes:
        positions: one per listed shard.
        lost: shards that are gone before their end was read.
    """

    positions: Positions
    lost: tuple[str, ...]


def initial_positions(shards: Iterable[Shard], starting: Position | None) -> Positions:
    """Return where a query without a checkpoint begins.

    Args:
        starting: None for LATEST, where the caller adds the open shards: closed ones were over
            before the query began.
    """
    if starting is not None:
        return {each.id: starting for each in shards}
    return {each.id: SHARD_END for each in shards if not each.is_open}


def continued(positions: Mapping[str, Position], shards: Sequence[Shard]) -> Continuation:
    """Return the positions after a listing: with new shards, without those that are gone."""
    listed = {each.id for each in shards}
    ancestors = _ancestors(positions, shards)
    kept: Positions = {}
    for each in shards:
        if each.id in positions:
            kept[each.id] = positions[each.id]
        else:
            kept[each.id] = SHARD_END if each.id in ancestors else TRIM_HORIZON
    lost = tuple(
        shard
        for shard, position in sorted(positions.items())
        if shard not in listed and position != SHARD_END
    )
    return Continuation(kept, lost)


def readable(positions: Mapping[str, Position], shards: Sequence[Shard]) -> list[str]:
    """Return the shards that the next micro-batch may read."""
    return [
        each.id
        for each in shards
        if positions.get(each.id, SHARD_END) != SHARD_END
        and all(positions.get(parent, SHARD_END) == SHARD_END for parent in each.parents)
    ]


def _ancestors(positions: Mapping[str, Position], shards: Sequence[Shard]) -> set[str]:
    """Return the listed ancestors of all shards that have a position."""
    parents = {each.id: each.parents for each in shards}
    found: set[str] = set()
    waiting = [parent for shard in positions for parent in parents.get(shard, ())]
    while waiting:
        shard = waiting.pop()
        if shard not in found:
            found.add(shard)
            waiting += parents.get(shard, ())
    return found
