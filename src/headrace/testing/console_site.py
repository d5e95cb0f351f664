"""A small website's cluster with everything a console shows: topics with records that come all the
time, groups, audit counts, an agent whose one channel fills up, a flow that runs and one that only
tells figures; and some data that means harm."""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.client.address import Address
from headrace.client.admin import Admin, NewTopic
from headrace.client.group_admin import GroupAdmin
from headrace.client.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.config.properties import parse_properties
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings
from headrace.flow.registry import FOLDER_VARIABLE
from headrace.ingest.agent import Agent
from headrace.ingest.assembly import assemble
from headrace.ingest.config import plan_agent
from headrace.ingest.monitor import Monitor
from headrace.model.ids import TopicPartition
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.figure_server import FigureServer
from headrace.testing.flow_process import FlowProcess
from headrace.testing.readiness import free_port, wait_until

EVERY_LEGAL_CHARACTER = (
    "All.legal_characters-0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
SCRIPT = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
HOSTILE_GROUP = 'a/group & "more" <b>%2F</b>'
LIVE_FLOW = "shout"

_AGENT = """
a1.sources = r1
a1.channels = quick stuck
a1.sinks = topic onwards
a1.sources.r1.type = seq
a1.sources.r1.totalEvents = 300
a1.sources.r1.channels = quick stuck
a1.channels.quick.type = memory
a1.channels.quick.capacity = 1000
a1.channels.stuck.type = memory
a1.channels.stuck.capacity = 400
a1.sinks.topic.type = kafka
a1.sinks.topic.channel = quick
a1.sinks.topic.kafka.bootstrap.servers = {brokers}
a1.sinks.topic.kafka.topic = access-log
a1.sinks.onwards.type = avro
a1.sinks.onwards.channel = stuck
a1.sinks.onwards.hostname = 127.0.0.1
a1.sinks.onwards.port = {nobody}
"""

_GRAPH = {
    "nodes": [
        {"name": "views", "kind": "spout", "what": "page-views"},
        {"name": "by-page", "kind": "bolt", "what": "count"},
        {"name": "counts", "kind": "sink", "what": "page-counts"},
    ],
    "arrows": [
        {"source": "views", "target": "by-page"},
        {"source": "by-page", "target": "counts"},
    ],
}
_RISING = {
    "title": "Rising pages",
    "columns": ["page", "views", "before", "change"],
    "rows": [["/pricing", 412, 130, 282], ["/blog", 95, 120, -25], [SCRIPT, 7, 7, 0]],
}


@dataclass(frozen=True, slots=True)
class ConsoleSite:
    settings: ClientSettings
    server: ConsoleServer
    flow: FlowProcess
    figures: FigureServer


@contextmanager
def console_site(folder: Path) -> Iterator[ConsoleSite]:
    """All of it, and its end. The flow that runs starts meanwhile: who needs it waits for it."""
    with ExitStack() as parts:
        broker = parts.enter_context(
            BrokerProcess(folder / "broker", {"message.max.bytes": "9000000"})
        )
        settings = ClientSettings.of({"bootstrap.servers": broker.address})
        flows = folder / "flows"
        parts.enter_context(_environment(FOLDER_VARIABLE, str(flows)))
        with ConnectionPool(settings) as pool:
            _make_topics(pool)
            flow = parts.enter_context(_live_flow(folder, flows, broker.address))
            _write_site(broker.address, 3_000)
            _write_hostile(broker.address)
            _commit_some(pool)
        _audit_some(settings)
        parts.enter_context(_traffic(broker.address, settings))
        agent = parts.enter_context(_agent(broker.address))
        figures = parts.enter_context(FigureServer())
        figures.tell(plan="page-counts", graph=_GRAPH, tables=[_RISING], batch=1, batch_ms=200)
        told = ConsoleSettings(
            settings,
            listen=Address("127.0.0.1", 0),
            agents={"collector": agent},
            flows={"page-counts": figures.url},
            interval_seconds=0.5,
        )
        server = parts.enter_context(ConsoleServer(told))
        wait_until(lambda: _seen(server), what="a first look", timeout_seconds=120)
        yield ConsoleSite(settings, server, flow, figures)


def _seen(server: ConsoleServer) -> bool:
    return server.desk.watch.problem is None and bool(server.desk.watch.sight.groups)


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _make_topics(pool: ConnectionPool) -> None:
    wide = ("page-views", "searches", "impressions")
    narrow = ("alerts", "access-log", "page-counts", "loud-alerts", "hostile")
    topics = [
        *(NewTopic(name, 3) for name in wide),
        *(NewTopic(name, 1) for name in (*narrow, EVERY_LEGAL_CHARACTER)),
    ]
    assert set(Admin(pool).create_topics(topics).values()) == {None}


def _live_flow(folder: Path, flows: Path, brokers: str) -> FlowProcess:
    place = folder / LIVE_FLOW
    place.mkdir()
    return FlowProcess(
        place, flows, brokers=brokers, name=LIVE_FLOW, source="alerts", target="loud-alerts"
    )


def _write_site(address: str, views: int) -> None:
    from confluent_kafka import Producer

    chance = random.Random(7)
    producer = Producer({"bootstrap.servers": address})
    for number in range(views):
        user = f"user-{chance.randrange(400)}"
        page = chance.choice(["/", "/docs", "/pricing", "/blog/lag-without-thresholds"])
        view = {"user": user, "page": page, "ms": chance.randrange(900), "status": 200}
        producer.produce("page-views", json.dumps(view), user, headers={"trace": f"{number:06x}"})
        if number % 3 == 0:
            producer.produce("searches", json.dumps({"user": user, "q": "kafka"}), user)
            producer.poll(0)
    assert producer.flush(60) == 0


def _write_hostile(address: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "message.max.bytes": 9_000_000})
    producer.produce("hostile", b"x" * 5_000_000, b"5 MB")
    producer.produce("hostile", bytes(range(256)), bytes(range(128, 256)))
    producer.produce("hostile", None, b"tombstone")
    producer.produce("hostile", SCRIPT, SCRIPT, headers={SCRIPT: SCRIPT})
    producer.produce("hostile", json.dumps({"html": SCRIPT}), b"json")
    producer.produce(EVERY_LEGAL_CHARACTER, "a value", "a key")
    assert producer.flush(60) == 0


def _commit_some(pool: ConnectionPool) -> None:
    admin = GroupAdmin(pool)
    partitions = [TopicPartition("page-views", index) for index in range(3)]
    for group, offset in (
        ("mailing-list", 900),
        ("search-index", 200),
        ("headrace-flow-page-counts", 950),
        ("headrace-sink-page-counts-1f", 7),
        (HOSTILE_GROUP, 5),
    ):
        assert set(admin.commit(group, dict.fromkeys(partitions, offset)).values()) == {None}


@contextmanager
def _traffic(address: str, settings: ClientSettings) -> Iterator[None]:
    """Something is always going on: records come, and a group follows them."""
    from confluent_kafka import Producer

    stopping = Event()

    def run() -> None:
        producer = Producer({"bootstrap.servers": address})
        with ConnectionPool(settings) as pool:
            read = 0
            while not stopping.wait(0.25):
                for number in range(20):
                    producer.produce("impressions", f'{{"ad": {number}}}', partition=0)
                    producer.produce("searches", '{"q": "spark"}', partition=number % 3)
                producer.flush(60)
                read += 18
                GroupAdmin(pool).commit("ad-billing", {TopicPartition("impressions", 0): read})

    thread = Thread(target=run, name="traffic", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _audit_some(settings: ClientSettings) -> None:
    now_ms = time.time_ns() // 1_000_000
    for tier, lost in (("producer", 0), ("broker", 0), ("lake", 7)):
        tally = Tally(tier, bucket_ms=60_000)
        for minute in range(2, 8):
            tally.count("page-views", now_ms - minute * 60_000, 12_000 - lost * (minute == 4))
            tally.count("searches", now_ms - minute * 60_000, 4_000)
        Reporter(tally, settings).report()


@contextmanager
def _agent(brokers: str) -> Iterator[str]:
    """A running agent of which one sink finds nobody; where it serves its numbers."""
    texts = _AGENT.format(brokers=brokers, nobody=free_port())
    plan, _ = plan_agent(parse_properties(texts, {}), "a1")
    assembly = assemble(plan)
    agent = Agent(assembly)
    monitor = Monitor(Address("127.0.0.1", 0), lambda: assembly)
    agent.start()
    monitor.start()
    try:
        yield f"http://127.0.0.1:{monitor.port}/metrics"
    finally:
        monitor.stop()
        agent.stop(drain_seconds=0)
