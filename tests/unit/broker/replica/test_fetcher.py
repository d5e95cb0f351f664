"""What a follower makes of a leader that does not answer."""

import asyncio

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.metric import BrokerMetrics
from headrace.broker.peer.connector import PeerConnector
from headrace.broker.replica.fetchers import ReplicaFetchers
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.replication_throttle import ReplicationThrottle
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.cluster.topic import random_topic_id
from headrace.model.clock import SystemClock
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.testing.readiness import free_port
from testkit.simulation.manual_threads import ManualThreads

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = random_topic_id()


def leader_at(port):
    return BrokerRecord(
        broker_id=BrokerId(1), endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", port),)
    )


class EmptyLog:
    """As much of a log as a fetch needs that is never answered."""

    log_start_offset = log_end_offset = 0
    config = LogConfig()
    closed = False


class Host:
    """A broker that knows one other, and collects those that are reported to be gone."""

    broker_epoch = 0

    def __init__(self, leader):
        self.members = {leader.broker_id: leader}
        self.metrics = BrokerMetrics()
        self.log_threads = ManualThreads()
        self.gone = []

    def broker_gone(self, record):
        self.gone.append(record)


async def gone_until(enough, port, folder, meanwhile=lambda fetchers: None, **more):
    """Return the brokers that a follower of the leader at `port` reported when `enough` holds."""
    texts = {"node.id": "2", "log.dirs": str(folder), "replica.fetch.backoff.ms": "10"}
    settings = BrokerSettings(texts | {name.replace("_", "."): text for name, text in more.items()})
    host = Host(leader_at(port))
    connector = PeerConnector(settings, host.members.get)
    throttle = ReplicationThrottle(SystemClock(), lambda: 2**63)
    fetchers = ReplicaFetchers(host, settings, connector, throttle)
    starts = fetchers.log_starts
    fetchers.follow(Follower(ORDERS, TOPIC_ID, EmptyLog(), BrokerId(1), LeaderEpoch(0), starts))
    async with asyncio.timeout(60):
        while not enough(host.gone):
            meanwhile(fetchers)
            await asyncio.sleep(0.01)
    await fetchers.stop()
    return host.gone


def test_a_leader_whose_machine_refuses_connections_is_reported_gone(tmp_path):
    port = free_port()

    assert asyncio.run(gone_until(bool, port, tmp_path)) == [leader_at(port)]


def test_a_leader_that_hangs_up_is_there(tmp_path):
    calls = []

    async def hang_up(reader, writer):
        calls.append(1)
        writer.close()
        await writer.wait_closed()

    async def scenario():
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        gone = await gone_until(lambda _: len(calls) > 3, port, tmp_path)
        server.close()
        await server.wait_closed()
        return gone

    assert asyncio.run(scenario()) == []


def calls_of_a_follower(folder, **options):
    """How often a leader is called that takes connections and says nothing: thrice, or more."""
    calls = []

    async def say_nothing(reader, writer):
        calls.append(1)
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async def scenario():
        server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await gone_until(lambda _: len(calls) > 2, port, folder, **options)
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())
    return len(calls)


def test_a_leader_that_says_nothing_while_a_follower_counts_as_in_sync_is_called_again(tmp_path):
    waits = {"replica_fetch_wait_max_ms": "10", "replica_lag_time_max_ms": "50"}

    assert calls_of_a_follower(tmp_path, **waits) >= 3


def test_a_leader_that_was_counted_out_is_called_again(tmp_path):
    assert calls_of_a_follower(tmp_path, meanwhile=lambda each: each.reconnect(BrokerId(1))) >= 3


def test_a_follower_whose_log_is_closed_is_not_fetched(tmp_path):
    """The leader would take the end of a log that was deleted for a replica in sync."""

    class ClosedLog(EmptyLog):
        closed = True

    async def scenario():
        settings = BrokerSettings({"node.id": "2", "log.dirs": str(tmp_path)})
        host = Host(leader_at(free_port()))
        throttle = ReplicationThrottle(SystemClock(), lambda: 2**63)
        fetchers = ReplicaFetchers(
            host, settings, PeerConnector(settings, host.members.get), throttle
        )
        starts = fetchers.log_starts
        for partition, log in enumerate((EmptyLog(), ClosedLog())):
            name = TopicPartition("orders", partition)
            fetchers.follow(Follower(name, TOPIC_ID, log, BrokerId(1), LeaderEpoch(0), starts))
        _, request = fetchers._fetchers[BrokerId(1)]._request()
        asked = [each.partition for topic in request.topics for each in topic.partitions]
        await fetchers.stop()
        return asked

    assert asyncio.run(scenario()) == [0]
