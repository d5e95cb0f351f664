"""Shards split and merge while several instances put: nothing is lost, and order holds per key.

The stream is encrypted meanwhile, and nothing is written in plain text after that.
"""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.store import stream_keeper
from headrace.gateway.kinesis.store.stream_keeper import settle
from headrace.gateway.kinesis.stream.stream_state import StreamStatus
from headrace.testing.readiness import wait_until
from testkit.fault.held_stream_tail import HeldStreamTail
from testkit.peer.stock_consumer import read_topic
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.process.kinesis_client import (
    create_stream,
    kinesis_client,
    read_shard,
    read_stream,
    status,
    wait_for_active,
)
from testkit.process.kinesis_gateway import kinesis_gateway
from testkit.process.kinesis_process import KinesisProcess

FIRST = "shardId-000000000000"
NEVER_RESHARDS = """
import threading
from headrace.cli.main import main
from headrace.gateway.kinesis.store import stream_keeper

stream_keeper._reshard = lambda *_: threading.Event().wait()
main()
"""
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"resharded-{next(_numbers)}"


def server(broker: BrokerProcess) -> KinesisServer:
    return kinesis_gateway(broker.address, limits=False, master_keys={"alias/one": b"1" * 32})


@pytest.fixture(scope="module")
def pair(broker: BrokerProcess) -> Iterator[tuple[KinesisServer, KinesisServer]]:
    with server(broker) as one, server(broker) as other:
        yield one, other


def put_until(stop: threading.Event, clients: list[Any], name: str, key: str) -> list[int]:
    """Put 0, 1, 2 ... under one key, each through the next instance; return the acknowledged."""
    acknowledged = []
    for at in itertools.count():
        client = clients[at % len(clients)]
        client.put_record(StreamName=name, Data=f"{key}:{at}".encode(), PartitionKey=key)
        acknowledged.append(at)
        if stop.is_set():
            return acknowledged
    raise AssertionError


def plain_values(broker: BrokerProcess, gateway: KinesisServer, name: str) -> list[bytes]:
    partitions = gateway._app.service.store.streams[name].partition_count
    topic = read_topic(broker.address, name, range(partitions))
    found = [each.value for rows in topic.values() for each in rows]
    return sorted(each for each in found if each.startswith(b"key-"))


def test_nothing_is_lost_while_shards_split_and_merge(
    pair: tuple[KinesisServer, KinesisServer], name: str, broker: BrokerProcess
) -> None:
    clients = [kinesis_client(each.url) for each in pair]
    client = clients[0]
    create_stream(client, name)
    stop = threading.Event()
    acknowledged: dict[str, list[int]] = {}

    def work(key: str) -> None:
        acknowledged[key] = put_until(stop, clients, name, key)

    threads = [threading.Thread(target=work, args=(f"key-{at}",)) for at in range(4)]
    for each in threads:
        each.start()
    try:
        client.split_shard(StreamName=name, ShardToSplit=FIRST, NewStartingHashKey=str(2**126))
        wait_for_active(client, name)
        client.start_stream_encryption(StreamName=name, EncryptionType="KMS", KeyId="alias/one")
        wait_for_active(client, name)
        plain = plain_values(broker, pair[0], name)
        clients[1].update_shard_count(
            StreamName=name, TargetShardCount=3, ScalingType="UNIFORM_SCALING"
        )
        wait_for_active(clients[1], name)
        shards = client.list_shards(StreamName=name, ShardFilter={"Type": "AT_LATEST"})["Shards"]
        assert len(shards) == 3
        shards.sort(key=lambda each: int(each["HashKeyRange"]["StartingHashKey"]))
        client.merge_shards(
            StreamName=name,
            ShardToMerge=shards[0]["ShardId"],
            AdjacentShardToMerge=shards[1]["ShardId"],
        )
        wait_for_active(client, name)
    finally:
        stop.set()
        for each in threads:
            each.join()

    found: dict[str, list[int]] = {}
    for record in read_stream(clients[1], name):
        key, _, number = record["Data"].decode().partition(":")
        found.setdefault(key, []).append(int(number))
    assert found == acknowledged
    assert plain and plain_values(broker, pair[0], name) == plain


def test_an_instance_with_an_old_view_puts_into_the_child(
    pair: tuple[KinesisServer, KinesisServer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    client, stale = kinesis_client(one.url), kinesis_client(other.url)
    create_stream(client, name)
    stale.put_record(StreamName=name, Data=b"before", PartitionKey="k")
    held = HeldStreamTail(other, monkeypatch)
    client.split_shard(StreamName=name, ShardToSplit=FIRST, NewStartingHashKey=str(2**127))
    wait_for_active(client, name)
    seen = held.tail.streams[name]
    assert seen.status == "ACTIVE" and len(seen.shards) == 1

    answer: list[dict[str, Any]] = []
    put = threading.Thread(
        target=lambda: answer.append(
            stale.put_record(StreamName=name, Data=b"after", PartitionKey="k")
        )
    )
    put.start()
    put.join(0.5)
    assert answer == [], "the instance has not confirmed its view, and may not acknowledge"
    held.release()
    put.join(60)

    assert answer[0]["ShardId"] != FIRST
    assert [each["Data"] for each in read_shard(client, name, FIRST)] == [b"before"]
    children = [each["Data"] for each in read_shard(client, name, answer[0]["ShardId"])]
    assert children == [b"after"]
    assert [each["Data"] for each in read_stream(stale, name)] == [b"before", b"after"]


class SlowGateway(KinesisProcess):
    """Begins reshards and finishes none, however late it is killed."""

    PROGRAM = ("-c", NEVER_RESHARDS)


def test_a_reshard_whose_instance_was_killed_is_finished_by_another(
    broker: BrokerProcess,
    pair: tuple[KinesisServer, KinesisServer],
    name: str,
    tmp_path: Path,
) -> None:
    survivor = kinesis_client(pair[0].url)
    with SlowGateway(tmp_path / "kinesis", broker.address, "--no-limits") as process:
        client = kinesis_client(process.url)
        create_stream(client, name)
        client.put_record(StreamName=name, Data=b"kept", PartitionKey="k")
        client.split_shard(StreamName=name, ShardToSplit=FIRST, NewStartingHashKey=str(2**127))
        process.kill()

        wait_until(
            lambda: (
                status(survivor, name) == "ACTIVE"
                and len(survivor.list_shards(StreamName=name)["Shards"]) == 3
            ),
            what="the split, by the other instance",
        )
        assert [each["Data"] for each in read_stream(survivor, name)] == [b"kept"]


def test_puts_into_a_closing_shard_do_not_hold_up_other_streams(
    pair: tuple[KinesisServer, KinesisServer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [kinesis_client(pair[0].url) for _ in range(3)]
    client = clients[0]
    other = f"{name}-other"
    create_stream(client, name)
    create_stream(client, other)
    may_go_on = threading.Event()
    held_settle = stream_keeper.settle

    def held(*arguments: Any) -> None:
        may_go_on.wait(60)
        held_settle(*arguments)

    monkeypatch.setattr(stream_keeper, "settle", held)
    client.split_shard(StreamName=name, ShardToSplit=FIRST, NewStartingHashKey=str(2**127))
    answers: list[Any] = []

    def put(at: int) -> None:
        writer = clients[1 + at % 2]
        answers.append(writer.put_record(StreamName=name, Data=b"x", PartitionKey=str(at)))

    threads = [threading.Thread(target=put, args=(at,)) for at in range(36)]
    for each in threads:
        each.start()
    # If it waited for them, they would have failed by then: a put gives up after a while.
    client.put_record(StreamName=other, Data=b"x", PartitionKey="k")
    may_go_on.set()
    for each in threads:
        each.join()

    assert len(answers) == len(threads)


def test_the_command_line_shows_splits_and_merges(
    broker: BrokerProcess, pair: tuple[KinesisServer, KinesisServer], name: str
) -> None:
    client = kinesis_client(pair[0].url)
    create_stream(client, name)

    split = run_headrace("kinesis", "stream", "split", name, FIRST, "-b", broker.address)
    assert split.code == 0 and len(split.lines) == 3, split.err
    one, other = (line.split()[0] for line in split.lines[1:])
    merge = run_headrace("kinesis", "stream", "merge", name, one, other, "-b", broker.address)
    assert merge.code == 0 and "100%" in merge.out
    described = run_headrace("kinesis", "stream", "describe", name, "-b", broker.address)
    assert [line.split()[1] for line in described.lines[1:]] == ["closed"] * 3 + ["open"]
    listed = run_headrace("kinesis", "stream", "list", "-b", broker.address)
    assert any(line.split()[:2] == [name, "ACTIVE"] for line in listed.lines)
    wait_for_active(client, name)
    client.put_record(StreamName=name, Data=b"x", PartitionKey="k")


def test_a_key_is_added(tmp_path: Path) -> None:
    path = tmp_path / "keys"

    done = run_headrace("kinesis", "key", "add", "AKIDONE", "--keys", str(path))

    assert done.code == 0
    secret = done.lines[1].removeprefix("AWS_SECRET_ACCESS_KEY=")
    assert path.read_text() == f"AKIDONE {secret}\n"


def test_puts_and_reads_go_on_after_the_broker_was_killed(
    own_broker: BrokerProcess, name: str
) -> None:
    own_broker.start()
    with server(own_broker) as gateway:
        client = kinesis_client(gateway.url)
        create_stream(client, name)
        client.put_record(StreamName=name, Data=b"before", PartitionKey="k")
        own_broker.kill()
        answers: list[Any] = []
        put = threading.Thread(
            target=lambda: answers.append(
                client.put_record(StreamName=name, Data=b"meanwhile", PartitionKey="k")
            )
        )
        put.start()
        own_broker.start()
        put.join(60)

        assert len(answers) == 1, "the put waits for the broker"
        wait_until(lambda: status(client, name) == "ACTIVE", what="the stream", timeout_seconds=90)
        assert [each["Data"] for each in read_stream(client, name)] == [b"before", b"meanwhile"]
    own_broker.stop()


def test_an_instance_that_deletes_late_leaves_a_new_stream_of_the_name_alone(
    pair: tuple[KinesisServer, KinesisServer], broker: BrokerProcess, name: str
) -> None:
    client = kinesis_client(pair[0].url)
    create_stream(client, name)
    store = pair[1]._app.service.store
    assert store.tail.refresh(90)
    late = store.streams[name].changed(status=StreamStatus.DELETING)
    client.delete_stream(StreamName=name)
    wait_until(
        lambda: name not in client.list_streams(Limit=10_000)["StreamNames"], what="the deletion"
    )
    create_stream(client, name)
    client.put_record(StreamName=name, Data=b"new", PartitionKey="k")

    with ConnectionPool(ClientSettings.of({"bootstrap.servers": broker.address})) as pool:
        settle(pool, store, late)

    assert [each["Data"] for each in read_shard(client, name, FIRST)] == [b"new"]
