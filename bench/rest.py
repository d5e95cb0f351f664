"""The REST proxy beside a minimal one of aiohttp and aiokafka, on one broker.

Both are one process, and write with acks=all. The load is the same bytes over plain sockets. Topics
have four partitions.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from bench import rest_load
from bench.row import Row, spread
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from testkit.peer.minimal_rest_proxy import MinimalRestProxy
from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_process import RestProcess

CONNECTIONS = 8
BATCH = 100
_PARTITIONS = 4
_ROUNDS = 5
_SECONDS = 5.0
_MOST_P99_MS = 5.0
_THEIRS = "against aiohttp + aiokafka"

Figures = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Sides:
    """Both proxies, and what makes topics."""

    urls: tuple[str, str]
    client: ClientSettings

    def topic(self) -> str:
        """Make a topic for one round."""
        name = f"bench-{time.monotonic_ns()}"
        with ConnectionPool(self.client) as pool:
            error = Admin(pool).create_topics([NewTopic(name, _PARTITIONS, 1)])[name]
            if error is not None:
                raise error
        return name


@contextmanager
def _running(folder: Path) -> Iterator[Sides]:
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(folder / "broker", settings={}))
        ours = stack.enter_context(RestProcess(folder / "ours", broker.address))
        theirs = stack.enter_context(MinimalRestProxy(folder / "theirs", broker.address))
        client = ClientSettings.of({"bootstrap.servers": broker.address})
        yield Sides((ours.url, theirs.url), client)


def run() -> list[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder,
        _running(Path(folder)) as sides,
    ):
        return [*_batches(sides), *_singles(sides), *_lone(sides)]


def _alternate(sides: Sides, measure: Callable[[str, str], dict[str, float]]) -> list[Figures]:
    """Both in turn. The first round counts for nothing."""
    kept: list[Figures] = [{}, {}]
    for number in range(-1, _ROUNDS):
        for url, figures in zip(sides.urls, kept, strict=True):
            measured = measure(url, sides.topic())
            if number >= 0:
                for name, value in measured.items():
                    figures.setdefault(name, []).append(value)
    return kept


def _load(connections: int, records: int) -> Callable[[str, str], dict[str, float]]:
    def measure(url: str, topic: str) -> dict[str, float]:
        done = rest_load.produce(
            url, topic, connections=connections, records_per_request=records, seconds=_SECONDS
        )
        percentiles = quantiles(done.times_ms, n=100)
        return {"rate": done.records_per_second, "p50": percentiles[49], "p99": percentiles[98]}

    return measure


def _batches(sides: Sides) -> list[Row]:
    ours, theirs = _alternate(sides, _load(CONNECTIONS, BATCH))
    what = f"produce {BATCH} × 1 KiB per request, {CONNECTIONS} connections; {_THEIRS}"
    return [_rate(what, ours["rate"], theirs["rate"], least=5)]


def _singles(sides: Sides) -> list[Row]:
    ours, theirs = _alternate(sides, _load(CONNECTIONS, 1))
    what = f"produce 1 × 1 KiB per request, {CONNECTIONS} connections; {_THEIRS}"
    return [_rate(what, ours["rate"], theirs["rate"], least=2)]


def _lone(sides: Sides) -> list[Row]:
    ours, theirs = _alternate(sides, _load(1, 1))
    what = "produce 1 × 1 KiB, one request at a time"
    return [
        _time(f"{what}: p50; {_THEIRS}", ours["p50"], theirs["p50"]),
        _time(f"{what}: p99; {_THEIRS}", ours["p99"], theirs["p99"], _MOST_P99_MS),
    ]


def _rate(name: str, ours: list[float], theirs: list[float], least: float) -> Row:
    return Row(
        name=name,
        ours=median(ours),
        theirs=median(theirs),
        unit="records/s",
        spread=spread(ours),
        bar=f"≥ {least:g}×",
        reached=median(ours) / median(theirs) >= least,
    )


def _time(name: str, ours: list[float], theirs: list[float], most_ms: float | None = None) -> Row:
    return Row(
        name=name,
        ours=median(ours),
        theirs=median(theirs),
        unit="ms",
        spread=spread(ours),
        bar="" if most_ms is None else f"≤ {most_ms:g} ms",
        reached=None if most_ms is None else median(ours) <= most_ms,
    )
