"""The traffic of a small website: records are written, a log grows, groups commit, and flows report
batches. The flows are simulated; their topics, groups and figures are like those of real ones."""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LATEST, FoundOffset, list_offsets
from headrace.client.settings import ClientSettings
from headrace.flow.execution.progress_group import group_of
from headrace.model.ids import TopicPartition
from testkit.sample.figure_server import FigureServer

COUNTING: Final = "page-count"
_ROUND_SECONDS: Final = 0.25
# The records of each topic per round.
_WRITTEN: Final = {"page-views": 40, "searches": 12, "impressions": 20, "profiles": 1}
_ANSWERED: Final = {"page-counts": 6, "page-minutes": 3, "country-views": 4, "alerts": 0}
_READ: Final = {
    "page-count": ("page-views",),
    "access-log": ("access-log",),
    "countries": ("page-views", "profiles"),
    "land-page-views": ("page-views",),
}


def _graph(*nodes: tuple[str, str, str], arrows: str) -> dict[str, Any]:
    pairs = (each.split(">") for each in arrows.split())
    return {
        "nodes": [{"name": name, "kind": kind, "what": what} for name, kind, what in nodes],
        "arrows": [{"source": source, "target": target} for source, target in pairs],
    }


FLOWS: Final[Mapping[str, dict[str, Any]]] = {
    "page-count": _graph(
        ("views", "spout", "page-views"),
        ("by-page", "bolt", "count"),
        ("counts", "sink", "page-counts"),
        arrows="views>by-page by-page>counts",
    ),
    "access-log": _graph(
        ("lines", "spout", "access-log"),
        ("parse", "bolt", "parse"),
        ("minutes", "bolt", "Aggregate"),
        ("failing", "bolt", "KeepsFailing"),
        ("to-minutes", "sink", "page-minutes"),
        ("to-alerts", "sink", "alerts"),
        arrows="lines>parse parse>minutes parse>failing minutes>to-minutes failing>to-alerts",
    ),
    "countries": _graph(
        ("views", "spout", "page-views"),
        ("profiles", "spout", "profiles"),
        ("join", "bolt", "JoinProfile"),
        ("to-countries", "sink", "country-views"),
        arrows="views>join profiles>join join>to-countries",
    ),
    "land-page-views": _graph(
        ("views", "spout", "page-views"),
        ("files", "sink", "/lake/page-views"),
        arrows="views>files",
    ),
}


@contextmanager
def site_traffic(
    settings: ClientSettings, log: Path, flows: Mapping[str, FigureServer]
) -> Iterator[None]:
    """Run the traffic in a thread until the context is left.

    Args:
        log: the file to append lines to, as a web server does.
        flows: the servers of the flows' figures.
    """
    stopping = Event()
    log.touch()
    thread = Thread(
        target=_run, args=(settings, log, flows, stopping), name="site-traffic", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _run(
    settings: ClientSettings, log: Path, flows: Mapping[str, FigureServer], stopping: Event
) -> None:
    from confluent_kafka import Producer

    chance = random.Random(7)
    producer = Producer({"bootstrap.servers": str(settings.bootstrap[0])})
    with ConnectionPool(settings) as pool:
        admin, batch = GroupAdmin(pool), 0
        while not stopping.wait(_ROUND_SECONDS):
            batch += 1
            for topic, count in {**_WRITTEN, **_ANSWERED}.items():
                for number in range(count):
                    view = {"page": chance.choice(["/", "/docs", "/pricing"]), "n": number}
                    producer.produce(topic, json.dumps(view), f"user-{chance.randrange(400)}")
            producer.flush(60)
            with log.open("a") as lines:
                lines.writelines(f'127.0.0.1 "GET /{number}" 200\n' for number in range(10))
            for flow, topics in _READ.items():
                admin.commit(group_of(flow), _ends(pool, topics))
            admin.commit("ad-billing", _ends(pool, ("impressions",)))
            for number, each in enumerate(flows.values()):
                took_ms = 180 + (batch * 37 + number * 90) % 160
                each.serve(batch=batch, batch_ms=took_ms, records=40, records_per_second=160.0)


def _ends(pool: ConnectionPool, topics: tuple[str, ...]) -> dict[TopicPartition, int]:
    partitions = {
        topic.partition(index): LATEST
        for topic in pool.metadata(topics).topics.values()
        for index in topic.partitions
    }
    ends = list_offsets(pool, partitions)
    return {each: one.offset for each, one in ends.items() if isinstance(one, FoundOffset)}
