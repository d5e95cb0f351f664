"""async-kinesis (aiobotocore) reads a stream that is resharded up and down while records come."""

from pathlib import Path

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.testing.readiness import wait_until
from testkit.peer.async_kinesis import AsyncKinesisConsumer
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client, wait_for_active

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("program") / "async_consumer.py"
KEYS = 10
ROUNDS = 60
RESHARDS = {20: 4, 40: 2}
"""After so many rounds so many shards."""


def test_every_record_comes_in_the_order_of_its_key(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    settings = KinesisSettings(
        client=ClientSettings.of({"bootstrap.servers": broker.address}),
        listen=Address("127.0.0.1", 0),
    )
    with KinesisServer(settings) as gateway:
        client = kinesis_client(gateway.url)
        create_stream(client, topic, shards=2)
        try:
            consumer = AsyncKinesisConsumer(
                tmp_path, PROGRAM, gateway.url, topic, str(KEYS * ROUNDS)
            )
        except PeerMissing as missing:
            require_peer(str(missing))
        with consumer:
            for number in range(ROUNDS):
                if (shards := RESHARDS.get(number)) is not None:
                    wait_for_active(client, topic)
                    client.update_shard_count(
                        StreamName=topic, TargetShardCount=shards, ScalingType="UNIFORM_SCALING"
                    )
                for key in range(KEYS):
                    text = f"{key}:{number}".encode()
                    client.put_record(StreamName=topic, PartitionKey=f"k{key}", Data=text)
            wait_until(
                lambda: consumer.log.count("\n") > KEYS * ROUNDS,
                what=f"all {KEYS * ROUNDS} records",
                timeout_seconds=300,
            )
            printed = consumer.log.split()[1:]

    for key in range(KEYS):
        own = [each for each in printed if each.startswith(f"{key}:")]
        assert own == [f"{key}:{number}" for number in range(ROUNDS)]
