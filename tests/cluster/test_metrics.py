"""What /metrics shows of a real cluster, while it is well and while it is not."""

import asyncio
import re
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from headrace.client.settings import ClientSettings
from headrace.console.status.cluster_health import ClusterHealth
from headrace.console.status.cluster_poller import ClusterPoller
from headrace.testing.local_cluster import local_cluster, start_member
from testkit.sample.monitoring import used_metrics

WAIT_SECONDS = 90
DOCS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
ADMIN = {"headrace.admin.listener": "127.0.0.1:0"}


async def families(server) -> list:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.admin_port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    text = (await reader.read()).partition(b"\r\n\r\n")[2].decode()
    writer.close()
    await writer.wait_closed()
    return list(text_string_to_metric_families(text))


async def page(server) -> dict:
    """Return every sample of a broker, by its name and the values of its labels."""
    return {
        (sample.name.removeprefix("headrace_"), *sample.labels.values()): sample.value
        for family in await families(server)
        for sample in family.samples
    }


async def names(server) -> set:
    """Return the names that a query may use, of metrics without samples too."""
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
    return {
        family.name + suffix
        for family in await families(server)
        for suffix in suffixes[family.type]
    }


def bare(name: str) -> str:
    """Return how the documentation names it: a histogram without what its samples end with."""
    return re.sub("_(bucket|sum|count)$", "", name) if "_seconds_" in name else name


async def totals(servers) -> Counter:
    """Return every sample, added up over all brokers."""
    found = Counter()
    for each in servers:
        found.update(await page(each))
    return found


async def until_total(servers, wanted: float, *sample: str) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while (await totals(servers))[sample] != wanted:
            await asyncio.sleep(0.25)


def write_and_read(address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    for number in range(40):
        producer.produce(topic, f"record {number}".encode(), partition=0)
        producer.poll(0)
        assert producer.flush(WAIT_SECONDS) == 0
    # Two brokers cannot hold the offsets of groups in three replicas: to commit is to wait in vain.
    no_commit = {"enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": address, "group.id": topic, **no_commit})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = 0
    while seen < 40:
        seen += len(consumer.consume(40, WAIT_SECONDS))
    consumer.close()


def address_of(servers) -> str:
    return ",".join(each.listeners[0].address for each in servers)


def console_health(address: str) -> ClusterHealth:
    """Return what the console's overview shows."""
    poller = ClusterPoller(ClientSettings.of({"bootstrap.servers": address}))
    try:
        poller.poll_once()
        return ClusterHealth.of(poller.snapshot.metadata, poller.snapshot.min_isr)
    finally:
        poller.release()


def test_a_cluster_that_loses_a_broker_and_gets_it_back(ensemble, tmp_path):
    async def scenario():
        async with local_cluster(ensemble, tmp_path, brokers=2, settings=ADMIN) as servers:
            admin = AdminClient({"bootstrap.servers": address_of(servers)})
            created = admin.create_topics([NewTopic("orders", 2, 2)])["orders"]
            await asyncio.to_thread(created.result, WAIT_SECONDS)
            await asyncio.to_thread(write_and_read, address_of(servers), "orders")

            found = await totals(servers)
            assert found["active_controller",] == 1
            assert found["topic_records_in_total", "orders"] == 40
            assert found["produced_records_total",] == 40
            sent = found["topic_bytes_in_total", "orders"]
            assert sent > 0
            await until_total(servers, sent, "topic_bytes_out_total", "orders")
            found = await totals(servers)
            assert found["replication_sent_bytes_total",] >= sent
            assert found["request_duration_seconds_count", "Produce"] > 0
            assert found["request_duration_seconds_count", "Fetch"] > 0
            assert found["request_duration_seconds_count", "FetchFollower"] > 0
            assert found["request_loop_seconds_total", "Produce"] > 0
            for healthy in (
                *("under_replicated_partitions", "under_min_isr_partitions"),
                *("offline_partitions", "isr_shrinks_total", "leader_elections_total"),
                *("unclean_leader_elections_total", "zookeeper_session_ends_total"),
            ):
                assert found[healthy,] == 0, healthy
            assert found["zookeeper_connected",] == 2
            assert found["at_min_isr_partitions",] == found["partitions",]

            served = await names(servers[0])
            assert used_metrics() - served == set()
            assert {name for name in served if f"`{bare(name)}" not in DOCS} == set()

            gone = servers.pop()
            number = int(gone.broker.node_id)
            led = (await page(gone))["partitions",]
            await gone.stop()

            await until_total(servers, led, "leader_elections_total")
            under = (await totals(servers))["partitions",]
            await until_total(servers, under, "under_replicated_partitions")
            await until_total(servers, under, "under_min_isr_partitions")
            found = await totals(servers)
            assert found["isr_shrinks_total",] > 0
            shown = await asyncio.to_thread(console_health, address_of(servers))
            assert (shown.under_replicated, shown.under_min_isr) == (under, under)
            assert (shown.partitions, shown.offline) == (under, 0)

            servers.append(await start_member(ensemble, tmp_path, number, ADMIN))

            await until_total(servers, 0, "under_replicated_partitions")
            found = await totals(servers)
            assert found["isr_expands_total",] > 0
            assert found["under_min_isr_partitions",] == 0

    asyncio.run(scenario())
