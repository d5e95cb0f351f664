"""The Kinesis gateway beside kinesis-mock and moto's server, all with boto3 as their client.

Ours is a gateway and a broker, two processes with default settings and no limits per shard: every
record that is acknowledged is in the log. The two others have one process each, no such limits, and
keep records in their memory. All streams have four shards.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError

from bench import kinesis_load
from bench.row import Row, spread
from headrace.testing.readiness import wait_until
from testkit.peer.kinesis_mock import KinesisMock
from testkit.peer.moto_server import MotoServer
from testkit.process.broker_process import BrokerProcess
from testkit.process.child_process import ChildProcess
from testkit.process.kinesis_process import KinesisProcess
from testkit.process.process_usage import ProcessUsage

SHARDS = 4
PROCESSES = 4
_ROUNDS = 5
_SECONDS = 5.0
_FILLED_REQUESTS = 8  # kinesis-mock takes seconds for each
_FAN_OUT_RECORDS = 400
_KIB = 1 << 10
_MIB = 1 << 20
_LARGE = ((100, 256 * _KIB), (50, _MIB))
_MOST_RSS_BYTES = 512 * _MIB

Figures = dict[str, list[float]]


class Server(Protocol):
    """What the three gateways have in common."""

    @property
    def url(self) -> str: ...

    def usage(self) -> ProcessUsage: ...


@dataclass(frozen=True, slots=True)
class Side:
    """One implementation. `processes`: all that serve, whose memory counts."""

    name: str
    server: Server
    processes: tuple[ChildProcess, ...]

    def rss_bytes(self) -> int:
        return sum(each.usage().rss_bytes for each in self.processes)


@contextmanager
def _running(folder: Path) -> Iterator[list[Side]]:
    """Ours, then theirs. The broker's own settings, not those of tests."""
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(folder / "broker", settings={}))
        gateway = stack.enter_context(
            KinesisProcess(folder / "gateway", broker.address, "--no-limits")
        )
        mock = stack.enter_context(KinesisMock(folder / "mock"))
        moto = stack.enter_context(MotoServer(folder / "moto"))
        yield [
            Side("ours", gateway, (gateway, broker)),
            Side("kinesis-mock", mock, (mock,)),
            Side("moto", moto, (moto,)),
        ]


def run() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        _running(Path(folder)) as sides,
    ):
        return [*_puts(sides), *_gets(sides), *_lone_puts(sides), *_fan_out(sides), *_large(sides)]


def _alternate(sides: list[Side], measure: Callable[[Side], dict[str, float]]) -> list[Figures]:
    """All sides in turn. The first round counts for nothing: it warms a compiler."""
    kept: list[Figures] = [{} for _ in sides]
    for number in range(-1, _ROUNDS):
        for side, figures in zip(sides, kept, strict=True):
            measured = measure(side)
            if number >= 0:
                for name, value in measured.items():
                    figures.setdefault(name, []).append(value)
    return kept


@contextmanager
def _stream(side: Side) -> Iterator[str]:
    """A stream of its own for a round: peers keep all records of a stream in memory."""
    kinesis = kinesis_load.client(side.server.url, attempts=5)
    name = f"bench-{time.monotonic_ns()}"
    kinesis.create_stream(StreamName=name, ShardCount=SHARDS)
    kinesis.get_waiter("stream_exists").wait(StreamName=name, WaiterConfig={"Delay": 1})
    try:
        yield name
    finally:
        with suppress(BotoCoreError, ClientError):  # a peer that is busy to the end is no figure
            kinesis.delete_stream(StreamName=name, EnforceConsumerDeletion=True)


def _puts(sides: list[Side]) -> list[Row]:
    def measure(side: Side) -> dict[str, float]:
        with _stream(side) as name:
            done = kinesis_load.run(
                "put_records", side.server.url, name, processes=PROCESSES, seconds=_SECONDS
            )
        return {"rate": done.records_per_second, "p50": median(done.times_ms)}

    what = f"PutRecords of 500 × 1 KiB, {PROCESSES} processes with boto3"
    ours, mock, moto = _alternate(sides, measure)
    return [
        _rate(f"{what}; against kinesis-mock", ours["rate"], mock["rate"], least=5),
        _rate(f"{what}; against moto", ours["rate"], moto["rate"]),
        Row(
            name="the same, one request: p50; against kinesis-mock",
            ours=median(ours["p50"]),
            theirs=median(mock["p50"]),
            unit="ms",
            spread=spread(ours["p50"]),
        ),
    ]


def _gets(sides: list[Side]) -> list[Row]:
    with ExitStack() as stack:
        names = {}
        for side in sides:
            names[side.name] = stack.enter_context(_stream(side))
            kinesis = kinesis_load.client(side.server.url)
            put = kinesis_load.put_records(kinesis, names[side.name], 0)
            for _ in range(_FILLED_REQUESTS):
                put()

        def measure(side: Side) -> dict[str, float]:
            done = kinesis_load.run(
                "get_records",
                side.server.url,
                names[side.name],
                processes=PROCESSES,
                seconds=_SECONDS,
            )
            return {"rate": done.records_per_second}

        ours, mock, moto = _alternate(sides, measure)
    what = f"GetRecords of about 1,000 × 1 KiB, {PROCESSES} processes with boto3"
    return [
        _rate(f"{what}; against kinesis-mock", ours["rate"], mock["rate"]),
        _rate(f"{what}; against moto", ours["rate"], moto["rate"]),
    ]


def _lone_puts(sides: list[Side]) -> list[Row]:
    def measure(side: Side) -> dict[str, float]:
        with _stream(side) as name:
            done = kinesis_load.run(
                "put_record", side.server.url, name, processes=1, seconds=_SECONDS
            )
        return {"p50": median(done.times_ms), "p99": quantiles(done.times_ms, n=100)[98]}

    ours, mock, moto = _alternate(sides, measure)
    what = "PutRecord of 1 KiB, one at a time, boto3"
    return [
        _time(f"{what}: p50; against kinesis-mock", ours["p50"], mock["p50"]),
        _time(f"{what}: p50; against moto", ours["p50"], moto["p50"]),
        _time(f"{what}: p99; against kinesis-mock", ours["p99"], mock["p99"], most_ms=10),
        _time(f"{what}: p99; against moto", ours["p99"], moto["p99"]),
    ]


def _fan_out(sides: list[Side]) -> list[Row]:
    """Alone: moto's server lacks SubscribeToShard, and boto3 cannot read what kinesis-mock sends.

    It sends no initial response, which comes first in an event stream.
    """

    def measure(side: Side) -> dict[str, float]:
        kinesis = kinesis_load.client(side.server.url)
        with _stream(side) as name:
            summary = kinesis.describe_stream_summary(StreamName=name)
            stream = summary["StreamDescriptionSummary"]["StreamARN"]
            made = kinesis.register_stream_consumer(StreamARN=stream, ConsumerName="bench")
            consumer = made["Consumer"]["ConsumerARN"]
            _wait_for_consumer(kinesis, consumer)
            taken = kinesis_load.fan_out_ms(side.server.url, name, consumer, count=_FAN_OUT_RECORDS)
        return {"p50": median(taken), "p99": quantiles(taken, n=100)[98]}

    [ours] = _alternate(sides[:1], measure)
    what = f"PutRecord to SubscribeToShard, {kinesis_load.PUTS_PER_SECOND} records per second"
    return [
        _time(f"{what}: p50", ours["p50"], most_ms=20),
        _time(f"{what}: p99", ours["p99"]),
    ]


def _wait_for_consumer(kinesis: object, arn: str) -> None:
    def is_active() -> bool:
        found = kinesis.describe_stream_consumer(ConsumerARN=arn)  # type: ignore[attr-defined]
        return bool(found["ConsumerDescription"]["ConsumerStatus"] == "ACTIVE")

    wait_until(is_active, what="the consumer")


def _large(sides: list[Side]) -> list[Row]:
    """Large records at once: the rate, and the most memory that any process had, before or now."""
    rows = []
    for count, size in _LARGE:
        what = f"{count} PutRecord of {size // _KIB} KiB at once"
        rates, failed = [], []
        for side in sides:
            with _stream(side) as name:
                rounds = [
                    kinesis_load.put_large(side.server.url, name, count=count, size_bytes=size)
                    for _ in range(_ROUNDS)
                ]
            rates.append([rate for rate, _ in rounds])
            failed.append(sum(len(errors) for _, errors in rounds))
        for at, side in enumerate(sides[1:], 1):
            theirs = f", of which it failed {failed[at]}" if failed[at] else ""
            rows.append(
                Row(
                    name=f"{what}; against {side.name}{theirs}",
                    ours=median(rates[0]),
                    theirs=median(rates[at]) or None,
                    unit="MiB/s",
                    spread=spread(rates[0]),
                    bar="none fails",
                    reached=not failed[0],
                )
            )
    gateway = sides[0].processes[0].usage().peak_rss_bytes
    rows.append(
        Row(
            name="the most memory that the gateway had in all of this",
            ours=gateway / _MIB,
            unit="MiB",
            bar=f"≤ {_MOST_RSS_BYTES // _MIB} MiB",
            reached=gateway <= _MOST_RSS_BYTES,
        )
    )
    return rows


def _rate(name: str, ours: list[float], theirs: list[float], least: float | None = None) -> Row:
    ratio = median(ours) / median(theirs)
    return Row(
        name=name,
        ours=median(ours),
        theirs=median(theirs),
        unit="records/s",
        spread=spread(ours),
        bar="" if least is None else f"≥ {least:g}×",
        reached=None if least is None else ratio >= least,
    )


def _time(
    name: str,
    ours: list[float],
    theirs: list[float] | None = None,
    most_ms: float | None = None,
) -> Row:
    return Row(
        name=name,
        ours=median(ours),
        theirs=None if theirs is None else median(theirs),
        unit="ms",
        spread=spread(ours),
        bar="" if most_ms is None else f"≤ {most_ms:g} ms",
        reached=None if most_ms is None else median(ours) <= most_ms,
    )
