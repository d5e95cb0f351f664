"""Puts clicks into a Kinesis stream with boto3, and splits a shard while it does.

python producer.py --clicks 5000 --split
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import boto3

PAGES = ("/", "/cart", "/search", "/item/1", "/item/2")
_AT_ONCE = 200
_WAIT_SECONDS = 0.2


def clicks(count: int, seed: int, now_ms: int) -> Iterator[dict[str, Any]]:
    """Yield clicks of the last three minutes, the same ones for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        page = chance.choice(PAGES)
        at_ms = now_ms - chance.randrange(180_000)
        yield {"user": f"user-{chance.randrange(100)}", "page": page, "at_ms": at_ms}


def put(client: Any, stream: str, some: list[dict[str, Any]]) -> None:
    """Put clicks, and those again that the stream was too busy for."""
    records = [{"Data": json.dumps(each).encode(), "PartitionKey": each["user"]} for each in some]
    while records:
        answer = client.put_records(StreamName=stream, Records=records)
        outcomes = zip(records, answer["Records"], strict=True)
        records = [record for record, outcome in outcomes if "ErrorCode" in outcome]
        if records:
            time.sleep(_WAIT_SECONDS)


def split(client: Any, stream: str) -> None:
    """Split the first open shard in the middle of its keys."""
    shards = client.list_shards(StreamName=stream, ShardFilter={"Type": "AT_LATEST"})["Shards"]
    keys = shards[0]["HashKeyRange"]
    middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"]) + 1) // 2
    client.split_shard(
        StreamName=stream, ShardToSplit=shards[0]["ShardId"], NewStartingHashKey=str(middle)
    )


def produce(client: Any, stream: str, count: int, *, seed: int = 1, splits: bool) -> Counter[str]:
    """Put clicks, and split a shard half-way. Return how many each page got."""
    waiting = list(clicks(count, seed, int(time.time() * 1_000)))
    for first in range(0, count, _AT_ONCE):
        if splits and first >= count // 2:
            split(client, stream)
            splits = False
        put(client, stream, waiting[first : first + _AT_ONCE])
    return Counter(each["page"] for each in waiting)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stream", default="clicks")
    parser.add_argument("--clicks", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", action="store_true", help="split a shard half-way")
    given = parser.parse_args()
    # boto3 finds endpoint, region and keys in the environment: here, or at AWS.
    client = boto3.client("kinesis")
    pages = produce(client, given.stream, given.clicks, seed=given.seed, splits=given.split)
    for page, count in sorted(pages.items()):
        print(f"{count:>8} {page}")  # noqa: T201


if __name__ == "__main__":
    main()
