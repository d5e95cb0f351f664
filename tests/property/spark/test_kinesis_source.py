"""The Kinesis source under any resharding, crash and throttling: all records, in order per key.

A test plays Spark: it asks for offsets, stores them, reads the partitions, and sometimes forgets
the reader between storing an offset and committing it, as a driver that dies does.
"""

from collections import defaultdict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from headrace.spark.kinesis.option import read_source_options
from headrace.spark.kinesis.position import Shape
from headrace.spark.kinesis.stream import KinesisStream
from testkit.simulation.kinesis_shards import KinesisShards

OPTIONS = read_source_options(
    {
        "kinesis.streamName": "clicks",
        "kinesis.startingPosition": "TRIM_HORIZON",
        "kinesis.describeShardInterval": "0s",
        "kinesis.maxFetchRecordsPerShard": "5",
        "kinesis.checkNewRecordThreads": "1",
        "kinesis.getRecords.fetchIntervalMs": "0",
    },
    streaming=True,
)
SCHEMA = StructType([StructField("partitionKey", StringType()), StructField("data", BinaryType())])
ACTIONS = st.sampled_from(
    ["write", "write", "split", "merge", "read", "read", "crash", "replay", "throttle", "expire"]
)
LIMIT = ReadAllAvailable()


class Query:
    """A streaming query: its checkpoint, and what its sink has."""

    def __init__(self, service: KinesisShards) -> None:
        self._service = service
        self.seen: dict[str, list[int]] = defaultdict(list)
        self.position: Shape | None = None
        self._reader = self._new_reader()

    def _new_reader(self) -> KinesisStream:
        return KinesisStream(OPTIONS, SCHEMA, self._service)

    def crash(self) -> None:
        self._reader = self._new_reader()

    def run(self, *, dies: bool = False) -> bool:
        """Run one micro-batch; if the driver dies, run it again from the stored offsets."""
        start = self._reader.initialOffset() if self.position is None else self.position
        end = self._reader.latestOffset(start, LIMIT)
        if end == start:
            return False
        if dies:
            self.crash()
            start = self._reader.initialOffset() if self.position is None else start
        for partition in self._reader.partitions(start, end):
            for batch in self._reader.read(partition):
                for row in batch.to_pylist():
                    self.seen[row["partitionKey"]].append(int(row["data"].split(b":")[1]))
        self.position = end
        return True


class Stream:
    """A stream that is written and resharded, and knows which shard has which key."""

    def __init__(self) -> None:
        self.service = KinesisShards(most_per_page=3)
        self.written: dict[str, int] = defaultdict(int)
        self._owners = {f"k{at}": self.service.open_shards[0] for at in range(4)}

    def write(self, number: int) -> None:
        shard = self._shard(number)
        for key in self._keys(shard):
            self.service.write(shard, f"{key}:{self.written[key]}")
            self.written[key] += 1

    def split(self, number: int) -> None:
        shard = self._shard(number)
        children = self.service.split(shard)
        self._owners |= {key: children[at % 2] for at, key in enumerate(self._keys(shard))}

    def merge(self, number: int) -> None:
        one, other = self._shard(number), self._shard(number + 1)
        if one != other:
            child = self.service.merge(one, other)
            self._owners |= dict.fromkeys([*self._keys(one), *self._keys(other)], child)

    def throttle(self, number: int) -> None:
        self.service.throttled = number

    def expire(self, position: Shape | None) -> None:
        """Forget the closed shards that were read."""
        read = {} if position is None else position["clicks"]
        for shard in [*self.service.shards]:
            if read.get(shard) == "SHARD_END":
                self.service.expire(shard)

    def _shard(self, number: int) -> str:
        shards = self.service.open_shards
        return shards[number % len(shards)]

    def _keys(self, shard: str) -> list[str]:
        return [key for key, owner in self._owners.items() if owner == shard]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(ACTIONS, st.integers(0, 7)), max_size=40))
def test_every_record_once_and_in_order_per_key(actions: list[tuple[str, int]]) -> None:
    stream = Stream()
    query = Query(stream.service)

    for action, number in actions:
        match action:
            case "read":
                query.run()
            case "replay":
                query.run(dies=True)
            case "crash":
                query.crash()
            case "expire":
                stream.expire(query.position)
            case _:
                getattr(stream, action)(number)

    idle = 0
    while idle < 12:
        idle = 0 if query.run() else idle + 1
    assert query.seen == {key: [*range(count)] for key, count in stream.written.items()}
