"""The Kinesis Client Library for Java against the gateway, as three workers of one application.

They poll over HTTP/1.1, or subscribe to shards (fan-out), for which the library needs HTTP/2.

Records come all the time. A shard splits, two merge, and a worker is killed with kill -9. The
workers append what they process to one file; it says whether every record was processed, in the
order of its key, and children after their parents.

DynamoDB, where the library keeps its leases, is moto's.
"""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.testing.readiness import wait_until
from testkit.peer.dynamodb import DynamoDb
from testkit.peer.kcl_worker import KclProgram, KclWorker, Processed, ProcessedLog
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client, wait_for_active

pytestmark = pytest.mark.interop

SOURCE = Path(__file__).with_name("program") / "KclWorker.java"
SHARD = "shardId-{:012d}"
# Four shards; the first one splits, and its upper half merges with the second one.
FIRST = [SHARD.format(number) for number in range(4)]
LOWER, UPPER, MERGED = (SHARD.format(number) for number in range(4, 7))
PARENTS = {LOWER: {FIRST[0]}, UPPER: {FIRST[0]}, MERGED: {UPPER, FIRST[1]}}
WORKERS = ("one", "two", "three")
KEYS = 24
# Rounds per second, of one record per key.
ROUNDS = 8
# A failover of the library, and three Javas on a busy machine.
STEP_SECONDS = 300


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> KclProgram:
    try:
        return KclProgram.compile(SOURCE, tmp_path_factory.mktemp("kcl"))
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[DynamoDb]:
    with DynamoDb() as server:
        yield server


class Producer(Thread):
    """Puts numbers from 0 on for each key, the next one when the one before is acknowledged."""

    def __init__(self, client: Any, stream: str) -> None:
        super().__init__(name="producer", daemon=True)
        self._client = client
        self._stream = stream
        self._ended = Event()
        self.rounds = 0

    def run(self) -> None:
        while not self._ended.wait(1 / ROUNDS):
            data = str(self.rounds).encode()
            entries = [{"PartitionKey": f"key-{at}", "Data": data} for at in range(KEYS)]
            while entries:
                answer = self._client.put_records(StreamName=self._stream, Records=entries)
                entries = [
                    entry
                    for entry, record in zip(entries, answer["Records"], strict=True)
                    if "ErrorCode" in record
                ]
            self.rounds += 1

    def stop(self) -> int:
        """Return how many numbers each key has."""
        self._ended.set()
        self.join(timeout=60)
        assert not self.is_alive()
        return self.rounds


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("retrieval", ["polling", "fan-out"])
def test_three_workers_process_all_in_order_through_a_split_a_merge_and_a_death(
    retrieval: str,
    broker: BrokerProcess,
    dynamodb: DynamoDb,
    program: KclProgram,
    topic: str,
    tmp_path: Path,
) -> None:
    stream, processed = f"{topic}-kcl", ProcessedLog(tmp_path / "processed")
    settings = KinesisSettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
    )

    def begun(*shards: str) -> bool:
        return set(shards) <= {row.shard for row in processed.rows() if row.what == "record"}

    with KinesisServer(settings) as gateway:
        client = kinesis_client(gateway.url)
        create_stream(client, stream, shards=len(FIRST))
        producer = Producer(kinesis_client(gateway.url), stream)
        shared = (str(processed.path), retrieval, str(len(WORKERS)))
        workers = {
            name: KclWorker(
                tmp_path / name,
                program,
                (gateway.url, dynamodb.url, stream, stream, name, *shared),
            )
            for name in WORKERS
        }
        try:
            producer.start()
            for worker in workers.values():
                worker.start()
            wait(lambda: begun(*FIRST), "records of all shards", workers)

            client.split_shard(
                StreamName=stream, ShardToSplit=FIRST[0], NewStartingHashKey=str(2**125)
            )
            wait_for_active(client, stream)
            wait(lambda: begun(LOWER, UPPER), "records of both children", workers)

            victim = owner(processed.rows(), UPPER)
            client.merge_shards(
                StreamName=stream, ShardToMerge=UPPER, AdjacentShardToMerge=FIRST[1]
            )
            workers.pop(victim).kill()
            wait_for_active(client, stream)
            wait(lambda: begun(MERGED), "records of the merged shard", workers)

            rounds = producer.stop()
            every = {(f"key-{at}", number) for at in range(KEYS) for number in range(rounds)}
            wait(
                lambda: every <= {(row.key, row.number) for row in processed.rows()},
                f"all {len(every)} records",
                workers,
            )
        finally:
            producer.stop()
            for worker in workers.values():
                worker.kill()

    # How the library divides shards is its own affair; one worker may be left without any.
    assert len({row.worker for row in processed.rows() if row.what == "record"}) > 1
    check_order(processed.rows())
    check_parents(processed.rows())


def wait(condition: Any, what: str, workers: dict[str, KclWorker]) -> None:
    try:
        wait_until(condition, what=what, timeout_seconds=STEP_SECONDS)
    except TimeoutError as error:
        logs = "\n".join(f"--- {name}\n{each.log[-3000:]}" for name, each in workers.items())
        raise TimeoutError(f"{error}\n{logs}") from None


def owner(rows: list[Processed], shard: str) -> str:
    return next(row.worker for row in reversed(rows) if row.shard == shard)


def check_order(rows: list[Processed]) -> None:
    """No record of a key before the one that was put before it; records may come again."""
    following: dict[str, int] = {}
    for row in rows:
        if row.what == "record":
            expected = following.setdefault(row.key, 0)
            assert row.number <= expected, f"{row} came, and {expected} was not processed"
            following[row.key] = max(expected, row.number + 1)


def check_parents(rows: list[Processed]) -> None:
    ended: set[str] = set()
    for row in rows:
        if row.what == "end":
            ended.add(row.shard)
        assert PARENTS.get(row.shard, set()) <= ended, f"{row} came before its parents' end"
