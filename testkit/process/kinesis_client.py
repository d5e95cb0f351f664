"""boto3 as a client of a gateway, and what tests do with it over and over."""

from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from headrace.testing.readiness import wait_until
from testkit.process.kinesis_answer import check_answer


def kinesis_client(
    url: str, *, key: str = "test", secret: str = "test-secret", authority: Path | None = None
) -> Any:
    """Return a boto3 client that retries nothing: a test wants to see every error.

    Every answer must fit the model's output shape: boto3 itself would leave out what does not.
    """
    client = boto3.client(
        "kinesis",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        verify=None if authority is None else str(authority),
        config=Config(read_timeout=60, retries={"total_max_attempts": 1}, max_pool_connections=20),
    )
    client.meta.events.register("before-parse.kinesis", check_answer)
    return client


def code_of(error: ClientError) -> str:
    """Return the name of the service's error."""
    code: str = error.response["Error"]["Code"]
    return code


def create_stream(client: Any, name: str, shards: int = 1, **options: Any) -> None:
    """Create a stream, and return when it is active."""
    client.create_stream(StreamName=name, ShardCount=shards, **options)
    wait_for_active(client, name)


def wait_for_active(client: Any, name: str) -> None:
    wait_until(
        lambda: status(client, name) == "ACTIVE",
        what=f"the stream {name}",
    )


def status(client: Any, name: str) -> str:
    summary = client.describe_stream_summary(StreamName=name)
    text: str = summary["StreamDescriptionSummary"]["StreamStatus"]
    return text


def read_shard(client: Any, name: str, shard_id: str, **start: Any) -> list[dict[str, Any]]:
    """Read a shard from its first record to its end, or to where it ends at the moment."""
    start = start or {"ShardIteratorType": "TRIM_HORIZON"}
    iterator = client.get_shard_iterator(StreamName=name, ShardId=shard_id, **start)[
        "ShardIterator"
    ]
    records: list[dict[str, Any]] = []
    while iterator is not None:
        answer = client.get_records(ShardIterator=iterator)
        records += answer["Records"]
        iterator = answer.get("NextShardIterator")
        if not answer["Records"] and answer["MillisBehindLatest"] == 0:
            break
    return records


def read_stream(client: Any, name: str) -> list[dict[str, Any]]:
    """Read all shards, parents before their children."""
    pages = client.get_paginator("list_shards").paginate(StreamName=name)
    shards = [each for page in pages for each in page["Shards"]]
    done: set[str] = set()
    records: list[dict[str, Any]] = []
    while shards:
        for shard in list(shards):
            parents = [shard.get("ParentShardId"), shard.get("AdjacentParentShardId")]
            if all(parent is None or parent in done for parent in parents):
                records += read_shard(client, name, shard["ShardId"])
                done.add(shard["ShardId"])
                shards.remove(shard)
    return records
