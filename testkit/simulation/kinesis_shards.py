"""A Kinesis stream in memory, as the Spark source sees it: shards, pages, limits, expiry.

A test splits and merges shards, lets the service throttle or forget iterators, and reads with the
real cursors and fetchers. Sequence numbers grow over the whole stream, as the service's do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headrace.spark.kinesis.client import Backoff, KinesisFault, Page
from headrace.spark.kinesis.position import SHARD_END, Position, sequence_of
from headrace.spark.kinesis.shard_graph import Shard


@dataclass
class MemoryShard:
    """A shard and its records."""

    id: str
    parents: tuple[str, ...] = ()
    is_open: bool = True
    records: list[dict[str, Any]] = field(default_factory=list)


class KinesisShards:
    """A stream of one shard at first.

    Attributes:
        now_ms: the service's clock; a test moves it.
        creation: when the stream was created.
        most_per_page: how many records a page has at most, whatever its limit.
        throttled: how many of the next GetRecords are refused.
        empty_pages: how many of the next GetRecords return nothing, though there are records.
        requests: what was asked, in order.
    """

    def __init__(self, *, most_per_page: int = 10_000) -> None:
        self.shards: dict[str, MemoryShard] = {}
        self.now_ms = 1_000_000
        self.creation = "1970-01-01T00:10:00.000Z"
        self.most_per_page = most_per_page
        self.throttled = 0
        self.empty_pages = 0
        self.forgets_iterators = False
        self.requests: list[str] = []
        self._number = 100
        self._count = 0
        self._add()

    def write(self, shard: str, *texts: str) -> None:
        """Add records to an open shard."""
        found = self.shards[shard]
        assert found.is_open
        for text in texts:
            self._number += 1
            found.records.append(
                {
                    "SequenceNumber": str(self._number),
                    "Data": text.encode(),
                    "PartitionKey": text.partition(":")[0],
                    "ApproximateArrivalTimestamp": datetime.fromtimestamp(self.now_ms / 1000, UTC),
                }
            )

    def split(self, shard: str) -> tuple[str, str]:
        """Close a shard and open two children."""
        self.shards[shard].is_open = False
        return self._add(shard), self._add(shard)

    def merge(self, one: str, other: str) -> str:
        """Close two shards and open their child."""
        self.shards[one].is_open = self.shards[other].is_open = False
        return self._add(one, other)

    def expire(self, shard: str) -> None:
        """Forget a closed shard, as retention does."""
        assert not self.shards.pop(shard).is_open

    def trim(self, shard: str, count: int) -> None:
        """Forget the oldest records of a shard, as retention does."""
        del self.shards[shard].records[:count]

    def create_again(self) -> None:
        """Delete the stream, and create another one of its name, with one shard."""
        self.shards.clear()
        self._count = 0
        self.creation = datetime.fromtimestamp(self.now_ms / 1000, UTC).isoformat()
        self._add()

    @property
    def open_shards(self) -> list[str]:
        """The shards that take records."""
        return [each.id for each in self.shards.values() if each.is_open]

    def created(self) -> str:
        """Return when the stream was created."""
        self.requests.append("describe")
        return self.creation

    def list_shards(self) -> tuple[list[Shard], int]:
        """Return all shards and the time."""
        self.requests.append("list")
        found = [
            Shard(each.id, each.parents, each.is_open, self.creation)
            for each in self.shards.values()
        ]
        return found, self.now_ms

    def shard_iterator(self, shard: str, position: Position, *, with_last: bool = False) -> str:
        """Return an iterator: the shard and an index. A record that is gone begins the shard."""
        assert position != SHARD_END
        if shard not in self.shards:
            raise KinesisFault("no such shard", "ResourceNotFoundException")
        records = self.shards[shard].records
        before = sum(not _lies_after(each, position) for each in records)
        last = str(sequence_of(position))
        has_last = before > 0 and records[before - 1]["SequenceNumber"] == last
        return f"{shard}/{before - (with_last and has_last)}"

    def get_records(self, iterator: str, limit: int) -> Page:
        """Return a page; refuse it when throttled, or when iterators are forgotten."""
        self.requests.append(iterator)
        if self.throttled:
            self.throttled -= 1
            raise KinesisFault("too fast", "ProvisionedThroughputExceededException")
        if self.forgets_iterators:
            self.forgets_iterators = False
            raise KinesisFault("too old", "ExpiredIteratorException")
        name, _, at = iterator.partition("/")
        shard = self.shards[name]
        if self.empty_pages:
            self.empty_pages -= 1
            return Page([], iterator, 1)
        end = min(int(at) + min(limit, self.most_per_page), len(shard.records))
        ended = end == len(shard.records) and not shard.is_open
        behind_ms = 0 if end == len(shard.records) else 1
        following = None if ended else f"{name}/{end}"
        return Page(shard.records[int(at) : end], following, behind_ms)

    def backoff(self) -> Backoff:
        """Return short delays."""
        return Backoff(1, 4)

    def _add(self, *parents: str) -> str:
        name = f"shardId-{self._count:012}"
        self._count += 1
        self.shards[name] = MemoryShard(name, parents)
        return name


def _lies_after(record: Mapping[str, Any], position: Position) -> bool:
    last = sequence_of(position)
    if last is not None:
        return int(record["SequenceNumber"]) > last
    _, _, time_ms = position.partition(" ")
    return not time_ms or record["ApproximateArrivalTimestamp"].timestamp() * 1000 >= int(time_ms)
