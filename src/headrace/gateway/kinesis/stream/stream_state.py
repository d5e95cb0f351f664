"""The whole state of a stream, and the changes that it can make.

Pure and immutable: a change returns a new state or raises a `ServiceError`. The state is one record
of the topic of streams, so every change is atomic.

Rule 1: the hash ranges of the open shards divide all hash keys, at every moment.
Rule 2: the shards of a stream differ in number and, unless they have none, in partition.
Rule 3: a reshard takes two changes. The first announces it (`pending`); instances stop putting into
the shards that close. The second closes them where their partitions end, and opens the new ones.
Decision 0033 says why nothing is lost in between.
Rule 4: new records are encrypted as soon as there is a data key. The status says so (ACTIVE) only
when no instance can still write plain ones.
"""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from headrace.gateway.kinesis.stream.daily_limit import Uses, used
from headrace.gateway.kinesis.stream.data_key import DataKey
from headrace.gateway.kinesis.stream.hash_key import uniform_ranges
from headrace.gateway.kinesis.stream.shard import NO_PARTITION, Shard

FORMAT: Final = 1
"""Of the record's JSON. A reader refuses a greater one: it would misread the shards."""

GUARDED_FORMAT: Final = 2
"""Of a stream with encryption or policies. A gateway that does not know of them must not serve it:
it would write plain records, return encrypted ones, and let everyone in."""

HOUR_MS: Final = 3_600_000
DEFAULT_RETENTION_HOURS: Final = 24
DEFAULT_RECORD_KIB: Final = 1024
ON_DEMAND_SHARDS: Final = 4


_NUMBERS: Final = ("created_ms", "retention_hours", "max_record_kib", "revision")


class StreamStatus(StrEnum):
    """The service's word for what a stream does."""

    CREATING = "CREATING"
    ACTIVE = "ACTIVE"
    UPDATING = "UPDATING"
    DELETING = "DELETING"


class StreamMode(StrEnum):
    """Whether the user or the service chooses the number of shards."""

    PROVISIONED = "PROVISIONED"
    ON_DEMAND = "ON_DEMAND"


class Distribution(StrEnum):
    """What chooses the shard of a record: its partition key, or the service."""

    USER_PARTITION_KEY = "USER_PARTITION_KEY"
    AUTO = "AUTO"


@dataclass(frozen=True, slots=True)
class Reshard:
    """An announced change of the shards.

    Attributes:
        closing: the numbers of the open shards that it closes.
        opening: the shards that it opens, in the order of their numbers. Those that it closes again
            at once have no partition.
    """

    closing: tuple[int, ...]
    opening: tuple[Shard, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "closing": list(self.closing),
            "opening": [each.as_json() for each in self.opening],
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Reshard":
        return cls(tuple(raw["closing"]), tuple(map(Shard.from_json, raw["opening"])))


@dataclass(frozen=True, slots=True)
class Consumer:
    """A registered consumer, which may subscribe to shards."""

    name: str
    created_ms: int
    tags: dict[str, str] = field(default_factory=dict)
    policy: str = ""

    def as_json(self) -> dict[str, Any]:
        fields = {"name": self.name, "created_ms": self.created_ms, "tags": self.tags}
        return {**fields, "policy": self.policy} if self.policy else fields


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """A stream.

    Attributes:
        warm_mibps: what an on-demand stream must always be able to take, in MiB per second.
        awaits_leases: encryption has begun, and others may not have heard of it.
        begun: the revision that began what is left to do; changes of tags leave it as it is.
        uses: when operations with a limit per day were used (`daily_limit`).
        topic_id: of its topic, in hex digits; empty until that is created.
        plain: a Kafka topic that is only shown as a stream: it has no record of its own.
        most_batch_bytes: `max.message.bytes` of a plain topic, if known. That of other topics has
            room for a record of any size that the stream allows.
    """

    name: str
    created_ms: int
    status: StreamStatus
    mode: StreamMode = StreamMode.PROVISIONED
    distribution: Distribution = Distribution.USER_PARTITION_KEY
    warm_mibps: int = 0
    retention_hours: int = DEFAULT_RETENTION_HOURS
    max_record_kib: int = DEFAULT_RECORD_KIB
    shards: tuple[Shard, ...]
    pending: Reshard | None = None
    tags: dict[str, str] = field(default_factory=dict)
    consumers: tuple[Consumer, ...] = ()
    metrics: tuple[str, ...] = ()
    data_keys: tuple[DataKey, ...] = ()
    awaits_leases: bool = False
    policy: str = ""
    uses: Uses = field(default_factory=dict)
    revision: int = 1
    begun: int = 1
    topic_id: str = ""
    plain: bool = False
    most_batch_bytes: int | None = None
    _open: tuple[Shard, ...] = field(init=False, compare=False, repr=False)
    _starts: tuple[int, ...] = field(init=False, compare=False, repr=False)
    _by_number: dict[int, Shard] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Once per state and not per record: a stream may have thousands of shards.
        shards = sorted((each for each in self.shards if each.is_open), key=lambda each: each.keys)
        object.__setattr__(self, "_open", tuple(shards))
        object.__setattr__(self, "_starts", tuple(each.keys.start for each in shards))
        object.__setattr__(self, "_by_number", {each.number: each for each in self.shards})

    @property
    def open_shards(self) -> list[Shard]:
        """The open shards, by their hash ranges."""
        return list(self._open)

    @property
    def partition_count(self) -> int:
        """How many partitions the topic needs, those of the announced shards included."""
        opening = () if self.pending is None else self.pending.opening
        return 1 + max(each.partition for each in (*self.shards, *opening))

    @property
    def data_key(self) -> DataKey | None:
        """What new records are encrypted with, or None if they are plain."""
        return next((each for each in self.data_keys if each.retired_ms is None), None)

    @property
    def least_shards(self) -> int:
        """How many open shards an on-demand stream keeps: a shard takes 1 MiB per second."""
        return max(ON_DEMAND_SHARDS, self.warm_mibps)

    @property
    def is_settled(self) -> bool:
        """Whether no instance has to finish a change."""
        return self.status is StreamStatus.ACTIVE

    def shard(self, number: int) -> Shard | None:
        return self._by_number.get(number)

    def is_closing(self, number: int) -> bool:
        return self.pending is not None and number in self.pending.closing

    def children(self, number: int) -> list[Shard]:
        """The shards that a shard was split into or merged to."""
        return [each for each in self.shards if number in each.parents]

    def shard_for(self, key: int) -> Shard:
        """Return the open shard of a hash key."""
        return self._open[bisect_right(self._starts, key) - 1]

    def changed(self, **changes: Any) -> "StreamState":
        """Return the next revision. One that sets the status begins or ends something."""
        revision = self.revision + 1
        begun = revision if "status" in changes else self.begun
        return replace(self, revision=revision, begun=begun, **changes)

    def used(self, operation: str, now_ms: int) -> "StreamState":
        """Return this state with one more use of an operation. No revision: a change follows.

        Raises:
            ServiceError: it was used too often within a day.
        """
        return replace(self, uses=used(self.uses, operation, self.name, now_ms))

    def announced(self, reshard: Reshard) -> "StreamState":
        """Return the state in which a reshard has begun."""
        return self.changed(status=StreamStatus.UPDATING, pending=reshard)

    def resharded(self, ends: dict[int, int], now_ms: int) -> "StreamState":
        """Return the state in which the announced reshard is done.

        Shards that were closed before the retention leave: their records have gone, and each
        reshard adds some.

        Args:
            ends: the offset behind the last record of every closing shard.
        """
        assert self.pending is not None
        horizon_ms = now_ms - self.retention_hours * HOUR_MS
        shards = [
            replace(each, last=max(each.first, ends[each.number]), closed_ms=now_ms)
            if self.is_closing(each.number)
            else each
            for each in self.shards
            if each.closed_ms is None or each.closed_ms > horizon_ms
        ]
        for each in self.pending.opening:
            is_passing = each.partition == NO_PARTITION
            shards.append(replace(each, last=0, closed_ms=now_ms) if is_passing else each)
        return self.changed(status=StreamStatus.ACTIVE, pending=None, shards=tuple(shards))

    def without_reshard(self) -> "StreamState":
        """Return the state in which the announced reshard is given up."""
        return self.changed(status=StreamStatus.ACTIVE, pending=None)

    @property
    def _is_guarded(self) -> bool:
        policies = [self.policy, *(each.policy for each in self.consumers)]
        return bool(self.data_keys) or any(policies)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": GUARDED_FORMAT if self._is_guarded else FORMAT,
            "name": self.name,
            "created_ms": self.created_ms,
            "status": self.status,
            "mode": self.mode,
            "distribution": self.distribution,
            "warm_mibps": self.warm_mibps,
            "retention_hours": self.retention_hours,
            "max_record_kib": self.max_record_kib,
            "shards": [each.as_json() for each in self.shards],
            "pending": None if self.pending is None else self.pending.as_json(),
            "tags": self.tags,
            "consumers": [each.as_json() for each in self.consumers],
            "metrics": list(self.metrics),
            "policy": self.policy,
            "data_keys": [each.as_json() for each in self.data_keys],
            "awaits_leases": self.awaits_leases,
            "uses": {name: list(times) for name, times in self.uses.items()},
            "revision": self.revision,
            "begun": self.begun,
            "topic_id": self.topic_id,
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "StreamState":
        """Read what `as_json` wrote.

        Raises:
            ValueError: a newer format, or something else.
        """
        if raw.get("format") not in (FORMAT, GUARDED_FORMAT):
            raise ValueError(f"format {raw.get('format')!r} of a stream is not known here")
        texts, numbers = (raw["name"], raw["topic_id"]), [raw[each] for each in _NUMBERS]
        if any(type(each) is not str for each in texts) or any(
            type(each) is not int for each in numbers
        ):
            raise ValueError("a stream has texts and whole numbers")
        pending = raw["pending"]
        return cls(
            name=raw["name"],
            created_ms=raw["created_ms"],
            status=StreamStatus(raw["status"]),
            mode=StreamMode(raw["mode"]),
            distribution=Distribution(raw.get("distribution", "USER_PARTITION_KEY")),
            warm_mibps=raw.get("warm_mibps", 0),
            retention_hours=raw["retention_hours"],
            max_record_kib=raw["max_record_kib"],
            shards=tuple(map(Shard.from_json, raw["shards"])),
            pending=None if pending is None else Reshard.from_json(pending),
            tags=raw["tags"],
            consumers=tuple(Consumer(**each) for each in raw["consumers"]),
            data_keys=tuple(map(DataKey.from_json, raw.get("data_keys", ()))),
            awaits_leases=bool(raw.get("awaits_leases")),
            metrics=tuple(raw.get("metrics", ())),
            policy=raw.get("policy", ""),
            uses={str(key): tuple(map(int, each)) for key, each in raw.get("uses", {}).items()},
            revision=raw["revision"],
            begun=raw.get("begun", raw["revision"]),
            topic_id=raw["topic_id"],
        )


def new_stream(name: str, shard_count: int, now_ms: int, **fields: Any) -> StreamState:
    """Return a stream whose topic is yet to be created."""
    shards = tuple(
        Shard(number=at, partition=at, keys=keys, created_ms=now_ms)
        for at, keys in enumerate(uniform_ranges(shard_count))
    )
    return StreamState(
        name=name, created_ms=now_ms, status=StreamStatus.CREATING, shards=shards, **fields
    )


def plain_stream(name: str, partitions: int, most_batch_bytes: int | None = None) -> StreamState:
    """Return a plain topic as a stream: every partition is an open shard."""
    shards = tuple(
        Shard(number=at, partition=at, keys=keys, created_ms=0)
        for at, keys in enumerate(uniform_ranges(partitions))
    )
    return StreamState(
        name=name,
        created_ms=0,
        status=StreamStatus.ACTIVE,
        shards=shards,
        plain=True,
        most_batch_bytes=most_batch_bytes,
    )
