"""boto3 as the client of every side of the Kinesis benchmark, each in a process of its own.

`python -m bench.kinesis_load WORK URL STREAM SECONDS NUMBER` connects, does the work once so that
nothing is measured for the first time, prints `ready`, and waits for a line. Then it works for so
many seconds and prints what it did as one line of JSON.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any

import boto3
from botocore.config import Config

RECORDS = 500
VALUE_BYTES = 1024
PUTS_PER_SECOND = 50
_TIME = Struct(">q")
_MEBIBYTE = 1 << 20
_KEY_BYTES = 16
_START_SECONDS = 120.0
_PATIENCE_SECONDS = 60.0


def client(url: str, *, attempts: int = 1) -> Any:
    """A client that tries nothing twice: a request that failed is no figure."""
    return boto3.client(
        "kinesis",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="bench",
        aws_secret_access_key="bench-secret",
        config=Config(
            read_timeout=_PATIENCE_SECONDS,
            retries={"total_max_attempts": attempts},
            max_pool_connections=128,
        ),
    )


@dataclass(frozen=True, slots=True)
class Done:
    """What the processes of one run did.

    Attributes:
        records_per_second: of all processes together.
        times_ms: how long each request took, or each record until it came.
    """

    records_per_second: float
    times_ms: list[float]


def run(work: str, url: str, stream: str, *, processes: int, seconds: float) -> Done:
    """Have processes do the same work at the same time."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.kinesis_load", work, url, stream, str(seconds), str(at)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for at in range(processes)
    ]
    watch = threading.Timer(
        _START_SECONDS + seconds + _PATIENCE_SECONDS, lambda: [each.kill() for each in children]
    )
    watch.start()
    try:
        for each in children:
            if _line(each) != "ready":
                raise AssertionError(f"{work} did not begin")
        for each in children:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        reports = [json.loads(_line(each) or "null") for each in children]
        if None in reports:
            raise AssertionError(f"{work} failed at {url}")
        return Done(
            sum(each["records"] / each["seconds"] for each in reports),
            [taken for each in reports for taken in each["times_ms"]],
        )
    finally:
        watch.cancel()
        for each in children:
            each.kill()
            each.wait()


def _line(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


# -- the works


def put_records(kinesis: Any, stream: str, number: int) -> "Callable[[], int]":
    """500 records of 1 KiB per request, keys of all shards."""
    records = [
        {"Data": bytes([at % 251]) * VALUE_BYTES, "PartitionKey": f"key-{number}-{at}"}
        for at in range(RECORDS)
    ]

    def put() -> int:
        answer = kinesis.put_records(StreamName=stream, Records=records)
        if answer["FailedRecordCount"]:
            raise AssertionError("a record was not put")
        return RECORDS

    return put


def put_record(kinesis: Any, stream: str, number: int) -> "Callable[[], int]":
    """One record of 1 KiB per request."""
    data = b"x" * VALUE_BYTES

    def put() -> int:
        kinesis.put_record(StreamName=stream, Data=data, PartitionKey=f"key-{number}")
        return 1

    return put


def get_records(kinesis: Any, stream: str, number: int) -> "Callable[[], int]":
    """A shard from its first record to its end, over and over; 2,000 records per request."""
    shards = kinesis.list_shards(StreamName=stream)["Shards"]
    shard = shards[number % len(shards)]["ShardId"]
    following: list[str] = []

    def get() -> int:
        if not following:
            first = kinesis.get_shard_iterator(
                StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON"
            )
            following.append(first["ShardIterator"])
        answer = kinesis.get_records(ShardIterator=following.pop(), Limit=2_000)
        if answer["Records"]:
            following.append(answer["NextShardIterator"])
        return len(answer["Records"])

    return get


WORKS = {"put_records": put_records, "put_record": put_record, "get_records": get_records}


def work(name: str, url: str, stream: str, seconds: float, number: int) -> None:
    step = WORKS[name](client(url), stream, number)
    step()
    print("ready", flush=True)
    sys.stdin.readline()
    records, times_ms = 0, []
    began = ended = time.perf_counter()
    while ended - began < seconds:
        records += step()
        now = time.perf_counter()
        times_ms.append((now - ended) * 1000)
        ended = now
    report = {"records": records, "seconds": ended - began, "times_ms": times_ms}
    print(json.dumps(report), flush=True)


# -- fan-out


def fan_out_ms(url: str, stream: str, consumer_arn: str, *, count: int) -> list[float]:
    """How long records took from the put to their subscriber, at 50 puts per second."""
    shard = client(url).list_shards(StreamName=stream)["Shards"][0]["ShardId"]
    subscription = client(url).subscribe_to_shard(
        ConsumerARN=consumer_arn, ShardId=shard, StartingPosition={"Type": "LATEST"}
    )
    events = iter(subscription["EventStream"])
    seconds = count / PUTS_PER_SECOND
    arguments = [url, stream, str(seconds), "0"]
    child = subprocess.Popen([sys.executable, "-m", "bench.kinesis_load", "pace", *arguments])
    taken: list[float] = []
    try:
        deadline = time.monotonic() + seconds + _PATIENCE_SECONDS
        while len(taken) < count:
            records = next(events)["SubscribeToShardEvent"]["Records"]
            now = time.monotonic_ns()
            taken += [(now - _TIME.unpack_from(each["Data"])[0]) / 1e6 for each in records]
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(taken)} of {count} records came")
        if child.wait(_PATIENCE_SECONDS):
            raise AssertionError("the puts failed")
    finally:
        child.kill()
        child.wait()
        subscription["EventStream"].close()
    return taken[count // 10 :]


def pace(url: str, stream: str, seconds: float) -> None:
    """Put records at a steady rate, each with the time at which its put began."""
    kinesis = client(url)
    padding = b"x" * (VALUE_BYTES - _TIME.size)
    start = time.monotonic_ns()
    for number in range(round(seconds * PUTS_PER_SECOND)):
        wait = start + number * 1_000_000_000 // PUTS_PER_SECOND - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        kinesis.put_record(
            StreamName=stream,
            Data=_TIME.pack(time.monotonic_ns()) + padding,
            PartitionKey="key",
        )


# -- large records in flight


def put_large(url: str, stream: str, *, count: int, size_bytes: int) -> tuple[float, list[str]]:
    """Put records at once, each by its own request; return MiB/s, and the errors."""
    kinesis = client(url)
    data = b"x" * (size_bytes - _KEY_BYTES)  # a record's limit includes its key
    errors: list[str] = []

    def put(number: int) -> None:
        try:
            kinesis.put_record(StreamName=stream, Data=data, PartitionKey=f"key-{number}")
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way
            errors.append(f"{type(error).__name__}: {error}"[:200])

    threads = [threading.Thread(target=put, args=(at,)) for at in range(count)]
    began = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    taken = time.perf_counter() - began
    return (count - len(errors)) * size_bytes / _MEBIBYTE / taken, errors


if __name__ == "__main__":
    _name, _url, _stream, _seconds, _number = sys.argv[1:]
    if _name == "pace":
        pace(_url, _stream, float(_seconds))
    else:
        work(_name, _url, _stream, float(_seconds), int(_number))
