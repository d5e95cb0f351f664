"""A cluster with everything that a console shows: topics that records are written to all the time,
groups, audit counts, an agent with a channel that fills up, simulated flows and a real one, and
hostile data."""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.client.address import Address
from headrace.client.admin.admin import Admin, ConfigChange, NewTopic
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.config.properties import parse_properties
from headrace.console.server import ConsoleServer
from headrace.console.settings import ConsoleSettings
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE
from headrace.gateway.kinesis.store.stream_topic import (
    STREAM_TOPIC,
    create_stream_topic,
    write_stream,
)
from headrace.gateway.kinesis.stream.hash_key import LARGEST, HashRange
from headrace.gateway.kinesis.stream.shard import Shard
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus
from headrace.ingest.agent.agent import Agent
from headrace.ingest.agent.assembly import assemble
from headrace.ingest.agent.monitor import Monitor
from headrace.ingest.config.reader import plan_agent
from headrace.landing.configured.landing_status import GROUP, LandingStatus
from headrace.model.clock import SystemClock
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.ids import TopicPartition
from headrace.testing.readiness import free_port, wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.sample.figure_server import FigureServer
from testkit.sample.flow_process import FlowProcess
from testkit.sample.site_mirrors import site_mirrors
from testkit.sample.site_traffic import COUNTING, FLOWS, site_traffic

EVERY_LEGAL_CHARACTER = (
    "All.legal_characters-0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
SCRIPT = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
HOSTILE_GROUP = 'a/group & "more" <b>%2F</b>'
LIVE_FLOW = "shout"
RISING: Final[dict[str, Any]] = {
    "title": "Rising pages",
    "columns": ["page", "views", "before", "change"],
    "rows": [["/pricing", 412, 130, 282], ["/blog", 95, 120, -25], [SCRIPT, 7, 7, 0]],
}

_AGENT = """
a1.sources = log numbers
a1.channels = quick stuck
a1.sinks = topic onwards
a1.sources.log.type = TAILDIR
a1.sources.log.filegroups = site
a1.sources.log.filegroups.site = {folder}/access.log
a1.sources.log.positionFile = {folder}/positions.json
a1.sources.log.channels = quick
a1.sources.numbers.type = seq
a1.sources.numbers.totalEvents = 300
a1.sources.numbers.channels = stuck
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
a1.sinks.onwards.port = {closed_port}
"""


HOUR_MS = 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ConsoleSite:
    settings: ClientSettings
    server: ConsoleServer
    flow: FlowProcess | None
    figures: FigureServer


@contextmanager
def console_site(folder: Path, *, for_tests: bool = True) -> Iterator[ConsoleSite]:
    """Start everything, and stop it at the end. The real flow may still be starting: a test
    that needs it waits for it.

    Args:
        for_tests: with hostile data and a real flow; pictures of the console have neither, but
            mirrors.
    """
    with ExitStack() as parts:
        broker = parts.enter_context(
            BrokerProcess(folder / "broker", {"message.max.bytes": "9000000"})
        )
        settings = ClientSettings.of({"bootstrap.servers": broker.address})
        flows = folder / "flows"
        parts.enter_context(_environment(FOLDER_VARIABLE, str(flows)))
        with ConnectionPool(settings) as pool:
            _create_topics(pool, for_tests=for_tests)
            flow = None
            if for_tests:
                flow = parts.enter_context(_live_flow(folder, flows, broker.address))
                _write_hostile(broker.address)
            _write_site(broker.address, 3_000)
            _write_stream(broker.address)
            _commit_some(pool, for_tests=for_tests)
            _land_some(pool, for_tests=for_tests)
        _audit_some(settings)
        servers = {name: parts.enter_context(FigureServer()) for name in FLOWS}
        for name, server in servers.items():
            table = [RISING] if for_tests else [{**RISING, "rows": RISING["rows"][:2]}]
            tables = table if name == COUNTING else []
            server.serve(graph=FLOWS[name], tables=tables, batch=1, batch_ms=200, records=0)
        parts.enter_context(site_traffic(settings, folder / "access.log", servers))
        agent = parts.enter_context(_agent(broker.address, folder))
        # Tests of mirrors have clusters of their own (tests/console/test_mirrors.py).
        mirrors = () if for_tests else (parts.enter_context(site_mirrors(folder, broker.address)),)
        console_settings = ConsoleSettings(
            settings,
            listen=Address("127.0.0.1", 0),
            agents={"collector": agent},
            flows={name: server.url for name, server in servers.items()},
            interval_seconds=0.5 if for_tests else 2.0,
            mirrors=mirrors,
        )
        console = parts.enter_context(ConsoleServer(console_settings))
        wait_until(lambda: _is_ready(console), what="the first snapshot", timeout_seconds=120)
        yield ConsoleSite(settings, console, flow, servers[COUNTING])


def _is_ready(server: ConsoleServer) -> bool:
    poller = server.state.cluster_poller
    return poller.problem is None and bool(poller.snapshot.groups)


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


def _create_topics(pool: ConnectionPool, *, for_tests: bool) -> None:
    wide = ("page-views", "searches", "impressions", "profiles")
    narrow = ["access-log", "alerts", "page-counts", "page-minutes", "country-views"]
    if for_tests:
        narrow += ["loud-alerts", "hostile", EVERY_LEGAL_CHARACTER]
    topics = [*(NewTopic(each, 3) for each in wide), *(NewTopic(each, 1) for each in narrow)]
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


def _write_stream(address: str) -> None:
    """Show the views as a stream whose first shard was split, as the Kinesis gateway notes it."""
    from confluent_kafka import Producer

    create_stream_topic(ClientSettings.of({"bootstrap.servers": address}))
    now_ms = SystemClock().wall_ms()
    split_ms, middle = now_ms - 2 * HOUR_MS, LARGEST // 2
    before = Shard(
        number=0,
        partition=0,
        keys=HashRange(0, LARGEST),
        created_ms=now_ms - 3 * HOUR_MS,
        last=500,
        closed_ms=split_ms,
    )
    after = [
        Shard(number=number, partition=number, keys=keys, created_ms=split_ms, parent=0)
        for number, keys in ((1, HashRange(0, middle)), (2, HashRange(middle + 1, LARGEST)))
    ]
    stream = StreamState(
        name="page-views",
        created_ms=before.created_ms,
        status=StreamStatus.ACTIVE,
        shards=(before, *after),
    )
    producer = Producer({"bootstrap.servers": address})
    producer.produce(STREAM_TOPIC, write_stream(stream), stream.name)
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


def _commit_some(pool: ConnectionPool, *, for_tests: bool) -> None:
    admin = GroupAdmin(pool)
    partitions = [TopicPartition("page-views", index) for index in range(3)]
    groups = {"mailing-list": 900, "search-index": 200, "headrace-sink-page-count-1f": 7}
    if for_tests:
        groups[HOSTILE_GROUP] = 5
    for group, offset in groups.items():
        assert set(admin.commit(group, dict.fromkeys(partitions, offset)).values()) == {None}


def _land_some(pool: ConnectionPool, *, for_tests: bool) -> None:
    """Show one table that is filled, one that fails, and one that no process fills."""
    now_ms = SystemClock().wall_ms()
    tables = {
        "searches": "iceberg:lake.web.searches",
        "impressions": "delta:ads/impressions",
        "profiles": "iceberg:lake.web.profiles",
    }
    changes = {
        topic: [ConfigChange(ConfigOperation.SET, "headrace.table.name", table)]
        for topic, table in tables.items()
    }
    assert set(Admin(pool).alter_configs(ConfigResourceType.TOPIC, changes).values()) == {None}
    full = SCRIPT if for_tests else "No space left on device"
    statuses = {
        "searches": LandingStatus(
            table=tables["searches"],
            rows=1_000,
            dead_letters=2,
            landed_ms=now_ms - 4_000,
            complete_ms=now_ms - 4_000,
            # As if it went on to report while the console is looked at.
            seen_ms=now_ms + HOUR_MS,
        ),
        "impressions": LandingStatus(
            table=tables["impressions"],
            rows=120,
            landed_ms=now_ms - 8 * 60_000,
            complete_ms=now_ms - 9 * 60_000,
            problem=f"delta:ads/impressions cannot be written: {full}",
            seen_ms=now_ms + HOUR_MS,
        ),
    }
    for topic, status in statuses.items():
        offsets = {TopicPartition(topic, index): 40 for index in range(3)}
        text = {TopicPartition(topic, 0): status.as_text()}
        committed = GroupAdmin(pool).commit(GROUP, offsets, metadata=text)
        assert set(committed.values()) == {None}


def _audit_some(settings: ClientSettings) -> None:
    now_ms = time.time_ns() // 1_000_000
    for tier, lost in (("producer", 0), ("broker", 0), ("lake", 7)):
        tally = Tally(tier, bucket_ms=60_000)
        for minute in range(2, 8):
            tally.count("page-views", now_ms - minute * 60_000, 12_000 - lost * (minute == 4))
            tally.count("searches", now_ms - minute * 60_000, 4_000)
        Reporter(tally, settings).report()


@contextmanager
def _agent(brokers: str, folder: Path) -> Iterator[str]:
    """Run an agent with one sink that cannot connect, and return the URL of its metrics."""
    texts = _AGENT.format(brokers=brokers, closed_port=free_port(), folder=folder)
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
