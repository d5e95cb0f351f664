"""`headrace kinesis consume` against a gateway: what is inside the records of the KPL."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.gateway.kinesis.server import KinesisServer
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.process.kinesis_client import create_stream, kinesis_client, read_shard
from testkit.process.kinesis_gateway import kinesis_gateway
from testkit.sample.kpl_record import AGGREGATE

FIRST = "shardId-000000000000"


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    with kinesis_gateway(broker.address, limits=False) as server:
        yield server


@pytest.fixture(scope="module")
def stream(gateway: KinesisServer) -> str:
    client: Any = kinesis_client(gateway.url)
    create_stream(client, "aggregated")
    client.put_record(StreamName="aggregated", Data=AGGREGATE, PartitionKey="a")
    client.put_record(StreamName="aggregated", Data=b"plain\x1b[2J", PartitionKey="eve")
    return "aggregated"


def consume(gateway: KinesisServer, stream: str, *options: str) -> list[str]:
    shown = run_headrace(
        "kinesis", "consume", stream, "--endpoint", gateway.url, "--from", "TRIM_HORIZON", *options
    )
    assert shown.code == 0, shown.err
    return shown.out.splitlines()


def test_an_aggregated_record_goes_through_unchanged(gateway: KinesisServer, stream: str) -> None:
    records = read_shard(kinesis_client(gateway.url), stream, FIRST)

    assert records[0]["Data"] == AGGREGATE


def test_the_records_inside_are_shown_and_nothing_controls_the_terminal(
    gateway: KinesisServer, stream: str
) -> None:
    lines = consume(gateway, stream, "--until-now")

    assert [line.split(maxsplit=2)[2] for line in lines] == [
        "ada one",
        "bob twotwotwo",
        "ada ",
        r"eve plain\x1b[2J",
    ]
    assert [line.split()[1].partition(".")[2] for line in lines] == ["0", "1", "2", ""]


def test_a_program_gets_json_and_the_record_as_it_is(gateway: KinesisServer, stream: str) -> None:
    inside = consume(gateway, stream, "--format", "json", "-n", "2")
    whole = consume(gateway, stream, "--format", "json", "-n", "1", "--raw")

    assert json.loads(inside[1])["explicit_hash_key"] == "7"
    assert json.loads(whole[0])["partition_key"] == "a"
    assert "data_base64" in json.loads(whole[0])
