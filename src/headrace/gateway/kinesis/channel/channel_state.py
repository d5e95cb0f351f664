"""A channel: a stream whose records are written to files, and how far that is.

Rule 1: which records a file has is committed (`begun`) before its first byte is written. Then the
file is written, then the positions are committed (`finished`). An owner that finds a landing not
finished writes the same file again, under the same name: no record is lost or doubled.
Rule 2: a channel has one owner, the gateway that lands it. Every change of the owner raises the
epoch, and only the owner of the present epoch begins or finishes a landing. A former owner that
wakes up in the middle of a file can only write what the present owner writes as well.
Rule 3: shards that were closed when the channel became active are not landed, open ones from their
end on. Later shards, the children of a reshard, are landed from their first record.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from headrace.gateway.kinesis.channel.key_template import error_key, object_key
from headrace.gateway.kinesis.stream.shard import NO_PARTITION, Shard
from headrace.gateway.kinesis.stream.stream_state import StreamState


class ChannelStatus(StrEnum):
    """The service's words."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    UPDATING = "UPDATING"
    DELETING = "DELETING"
    FAILED = "FAILED"


class RecordFormat(StrEnum):
    """What records of the stream are. Those that are not go to the dead letters."""

    JSON = "JSON"
    STRING = "STRING"
    BYTE_ARRAY = "BYTE_ARRAY"


class ShardRange(NamedTuple):
    """Offsets of a shard, without `end`."""

    shard: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Files that are being written.

    Attributes:
        number: counts the landings of a channel.
        ranges: what the files have.
        path: of the file of records; a bucket and a key.
        error_path: of the file of dead letters, which exists only if there are any.
        epoch: in which it began.
    """

    number: int
    ranges: tuple[ShardRange, ...]
    path: str
    error_path: str
    epoch: int

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "ranges": [list(each) for each in self.ranges],
            "path": self.path,
            "error_path": self.error_path,
            "epoch": self.epoch,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Landing":
        return cls(**{**raw, "ranges": tuple(ShardRange(*each) for each in raw["ranges"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState:
    """A channel.

    Attributes:
        reason: why it is not created, or why nothing is delivered at the moment.
        stream_created_ms: tells the stream from a later one of the same name.
        storage, dead_letters: StorageConfiguration and DeadLetterQueueS3Configuration.
        owner: the instance that lands it; empty if none does.
        positions: the next offset to land, by shard.
        first_new: the number of the first shard that was opened since the channel is active.
        landed: how many landings are finished.
    """

    name: str
    id: str
    created_ms: int
    status: ChannelStatus
    reason: str = ""
    role: str
    stream: str
    stream_created_ms: int
    record_format: RecordFormat
    freshness_seconds: int
    storage: dict[str, Any]
    dead_letters: dict[str, Any]
    tags: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    epoch: int = 0
    positions: dict[int, int] = field(default_factory=dict)
    first_new: int = 0
    landing: Landing | None = None
    landed: int = 0

    def is_of(self, stream: StreamState) -> bool:
        return (self.stream, self.stream_created_ms) == (stream.name, stream.created_ms)

    @property
    def is_running(self) -> bool:
        """Whether records are landed."""
        return self.status in (ChannelStatus.ACTIVE, ChannelStatus.UPDATING)

    def claimed(self, owner: str) -> "ChannelState":
        return replace(self, owner=owner, epoch=self.epoch + 1)

    def released(self) -> "ChannelState":
        return replace(self, owner="")

    def activated(self, positions: dict[int, int], shards: Iterable[Shard]) -> "ChannelState":
        """Return the channel from its first record on.

        Args:
            positions: where the open shards end.
            shards: all that there are.
        """
        first_new = 1 + max(each.number for each in shards)
        return replace(
            self,
            status=ChannelStatus.ACTIVE,
            reason="",
            positions=positions,
            first_new=first_new,
        )

    def position(self, shard: Shard) -> int | None:
        """Return the next offset of a shard to land, or None if the channel does not have it."""
        if shard.partition == NO_PARTITION:
            return None
        found = self.positions.get(shard.number)
        if found is None and shard.number >= self.first_new:
            return shard.first
        return found

    @property
    def buckets(self) -> tuple[str, str]:
        """Where records and dead letters go."""
        return _bucket(self.storage), _bucket(self.dead_letters)

    def next_landing(self, ranges: Iterable[ShardRange], time_ms: int) -> Landing:
        """Return what is written next.

        Args:
            time_ms: of the first record.
        """
        number = self.landed + 1
        names = {"channel-name": self.name, "channel-id": self.id, "stream-name": self.stream}
        key = object_key(self.storage["OutputKeyTemplate"], names, time_ms, number)
        prefix = self.dead_letters["ErrorOutputPrefix"]
        records, dead_letters = self.buckets
        return Landing(
            number=number,
            ranges=tuple(ranges),
            path=f"{records}/{key}",
            error_path=f"{dead_letters}/{error_key(prefix, names, time_ms, number)}",
            epoch=self.epoch,
        )

    def begun(self, landing: Landing) -> "ChannelState":
        return replace(self, landing=landing)

    def finished(self, shards: Iterable[Shard]) -> "ChannelState":
        """Return the channel when the files are written. Shards that are gone are forgotten.

        Args:
            shards: that the stream has by now.
        """
        assert self.landing is not None
        positions = {**self.positions, **{each.shard: each.end for each in self.landing.ranges}}
        known = {each.number for each in shards}
        return replace(
            self,
            positions={number: at for number, at in positions.items() if number in known},
            landing=None,
            landed=self.landing.number,
            reason="",
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.id,
            "created_ms": self.created_ms,
            "status": self.status,
            "reason": self.reason,
            "role": self.role,
            "stream": self.stream,
            "stream_created_ms": self.stream_created_ms,
            "record_format": self.record_format,
            "freshness_seconds": self.freshness_seconds,
            "storage": self.storage,
            "dead_letters": self.dead_letters,
            "tags": self.tags,
            "owner": self.owner,
            "epoch": self.epoch,
            "positions": {str(number): at for number, at in self.positions.items()},
            "first_new": self.first_new,
            "landing": None if self.landing is None else self.landing.as_json(),
            "landed": self.landed,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "ChannelState":
        """Read what `as_json` wrote.

        Raises:
            ValueError: it is something else.
        """
        try:
            landing = raw["landing"]
            fields = {
                **{name: raw[name] for name in cls.__dataclass_fields__},
                "status": ChannelStatus(raw["status"]),
                "record_format": RecordFormat(raw["record_format"]),
                "positions": {int(number): at for number, at in raw["positions"].items()},
                "landing": None if landing is None else Landing.from_json(landing),
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no channel: {error!r}") from error
        return cls(**fields)


def _bucket(configuration: dict[str, Any]) -> str:
    name: str = configuration["BucketARN"].rpartition(":")[2]
    return name
