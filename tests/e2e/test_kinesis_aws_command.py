"""The aws command (awscli) against the gateway, and every command that docs/kinesis.md shows."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.server import KinesisServer
from headrace.gateway.kinesis.settings import KinesisSettings
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.process.kinesis_client import kinesis_client, wait_for_active

PAGE = Path(__file__).parents[2] / "docs" / "kinesis.md"
# They set up or run what the test itself has set up.
NOT_RUN = ("pip ", "export ", "headrace up ", "headrace kinesis --")


@pytest.fixture(scope="module")
def gateway(broker: BrokerProcess) -> Iterator[KinesisServer]:
    client = ClientSettings.of({"bootstrap.servers": broker.address})
    with KinesisServer(KinesisSettings(client=client, listen=Address("127.0.0.1", 0))) as server:
        yield server


@pytest.fixture
def environment(gateway: KinesisServer, broker: BrokerProcess) -> dict[str, str]:
    """What docs/kinesis.md exports, with the addresses of this test."""
    return {
        "AWS_ENDPOINT_URL_KINESIS": gateway.url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "HEADRACE_BROKERS": broker.address,
    }


def run_aws(environment: dict[str, str], *arguments: str) -> Any:
    """Return what a command prints, as JSON if it prints some."""
    done = subprocess.run(
        [sys.executable, "-m", "awscli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"aws {shlex.join(arguments)}\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout) if done.stdout.strip() else None


def shown_commands() -> list[str]:
    """Return the commands of the page's blocks without a language, in their order."""
    blocks = PAGE.read_text().split("```")[1::2]
    lines = [line for block in blocks if block.startswith("\n") for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(NOT_RUN)]


def test_the_commands_of_the_page_work(
    gateway: KinesisServer, environment: dict[str, str], topic: str
) -> None:
    printed: dict[str, Any] = {}
    for line in shown_commands():
        program, *arguments = shlex.split(line.replace("clicks", topic))
        if program == "aws":
            printed[line] = run_aws(environment, *arguments)
        else:
            assert program == "headrace", line
            done = run_headrace(*arguments, environment=environment)
            assert done.code == 0, f"{line}\n{done.out}{done.err}"
            printed[line] = done.out
        if arguments[:2] == ["kinesis", "stream"]:
            wait_for_active(kinesis_client(gateway.url), topic)

    programs = [line.split()[0] for line in printed]
    assert programs.count("aws") >= 3
    [put] = [answer for line, answer in printed.items() if "put-record" in line]
    assert put["SequenceNumber"].startswith("4")
    [seen] = [text for line, text in printed.items() if "topic consume" in line]
    assert seen.split()[-1] == "ada=aGVsbG8=", "version 1 of awscli sends --data as it is"


def test_the_aws_command_lists_splits_and_reads(
    gateway: KinesisServer, environment: dict[str, str], topic: str
) -> None:
    def kinesis(operation: str, *arguments: str) -> Any:
        return run_aws(environment, "kinesis", operation, *arguments)

    named = ("--stream-name", topic)
    kinesis("create-stream", *named, "--shard-count", "1")
    wait_for_active(kinesis_client(gateway.url), topic)
    first = ("--shard-id", "shardId-000000000000")
    kinesis(
        "put-records", *named, "--records", "Data=one,PartitionKey=a", "Data=two,PartitionKey=b"
    )
    kinesis("split-shard", *named, "--shard-to-split", first[1], "--new-starting-hash-key", "9")
    wait_for_active(kinesis_client(gateway.url), topic)

    shards = kinesis("list-shards", *named, "--page-size", "2")["Shards"]
    assert [each.get("ParentShardId") for each in shards] == [None, first[1], first[1]]
    start = kinesis("get-shard-iterator", *named, *first, "--shard-iterator-type", "TRIM_HORIZON")
    read = kinesis("get-records", "--shard-iterator", start["ShardIterator"])
    assert [each["PartitionKey"] for each in read["Records"]] == ["a", "b"]
    assert [each["ShardId"] for each in read["ChildShards"]] == [
        each["ShardId"] for each in shards[1:]
    ]
