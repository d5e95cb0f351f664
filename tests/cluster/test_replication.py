"""Three brokers in this process with a real ZooKeeper: copies, leaders, and who may write."""

import asyncio

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.broker.server import Server
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.error import NotEnoughReplicas, NotLeader, StorageError
from headrace.model.ids import BrokerId, TopicPartition
from headrace.testing.local_cluster import local_cluster, start_member
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

ORDERS = TopicPartition("orders", 0)
WAIT_SECONDS = 90


async def until(condition, what):
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        pytest.fail(f"{what} did not come about in {WAIT_SECONDS} s")


def view_of(server):
    """Return a broker's view of the cluster, to explain why a test failed."""
    broker = server.broker
    topic = broker.topics.by_name("orders")
    return f"broker {broker.node_id} sees {sorted(broker.members)}, {topic and topic.record}"


async def create(servers, **options):
    plan = await servers[0].broker.controller.create_topics(
        [TopicToCreate(name="orders", **options)]
    )
    created = plan.outcomes["orders"]
    assert isinstance(created, TopicRecord), created
    for server in servers:
        await until(
            lambda server=server: server.broker.topics.exists("orders", 0),
            f"the topic on broker {server.broker.node_id}; " + view_of(server),
        )
    return created


def led(server):
    topic = server.broker.topics.by_name("orders")
    return None if topic is None else topic.partitions[0]


def copy(server):
    topic = server.broker.topics.by_name("orders")
    return topic.followers.get(0)


def find_coordinator(address, asked):
    with WireClient(address) as client:
        return client.ask(ApiKey.FIND_COORDINATOR, 4, asked).coordinators[0]


def leader_of(servers) -> Server:
    return next(server for server in servers if led(server) is not None)


async def append(server, *values, acks_all=True):
    partition = led(server)
    appended = partition.append(sample_batch(*values), acks_all=acks_all)
    async with asyncio.timeout(WAIT_SECONDS):
        await server.broker.when_safe(partition, appended.last_offset + 1)
    return appended


class TestReplication:
    def test_every_broker_gets_what_the_leader_takes(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                leader = leader_of(servers)
                await append(leader, b"one", b"two")
                followers = [server for server in servers if server is not leader]

                assert led(leader).log.high_watermark == 2
                for follower in followers:
                    assert copy(follower).log.log_end_offset == 2
                await append(leader, b"three")
                for follower in followers:
                    await until(lambda f=follower: copy(f).log.high_watermark >= 2, "word of it")

        asyncio.run(scenario())

    def test_a_broker_that_stops_hands_over_first_and_catches_up_later(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                first = leader_of(servers)
                await append(first, b"one")
                number = int(first.broker.node_id)
                await first.stop()
                servers.remove(first)
                await until(lambda: any(led(each) for each in servers), "a new leader")
                second = leader_of(servers)
                assert led(second).leader_epoch > 0
                await append(second, b"two")

                back = await start_member(ensemble, tmp_path, number)
                servers.append(back)

                await until(lambda: copy(back) is not None, "a follower")
                await until(lambda: copy(back).log.log_end_offset == 2, "the copy")
                isr = led(second).state
                await until(lambda: BrokerId(number) in isr.isr, "its place among those in sync")

        asyncio.run(scenario())

    def test_too_few_in_sync_take_no_writes_with_all_acks(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                leader = leader_of(servers)
                for other in [server for server in servers if server is not leader]:
                    servers.remove(other)
                    await other.stop()
                await until(lambda: len(led(leader).state.isr) == 1, "a leader on its own")

                with pytest.raises(NotEnoughReplicas):
                    led(leader).append(sample_batch(b"one"), acks_all=True)
                led(leader).append(sample_batch(b"two"))

                # KIP-966: what only one broker has is not shown.
                assert led(leader).log.log_end_offset == 1
                assert led(leader).log.high_watermark == 0

        asyncio.run(scenario())

    def test_a_leader_that_lost_its_place_takes_nothing(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path, brokers=2) as servers:
                await create(servers, partitions=1, replication_factor=2)
                leader = leader_of(servers)
                partition = led(leader)
                await leader.broker.controller.administer(
                    lambda controller: controller.leave(leader.broker.node_id)
                )

                await until(lambda: led(leader) is None, "the end of its leadership")
                with pytest.raises(NotLeader):
                    partition.append(sample_batch(b"late"))

        asyncio.run(scenario())

    def test_one_follower_that_is_refused_deposes_no_leader(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                leader = leader_of(servers)
                follower = next(each for each in servers if each is not leader)
                partition = led(leader)
                record = follower.broker.members[leader.broker.node_id]

                # As its fetcher does after the second refusal.
                follower.broker.broker_gone(record)
                await asyncio.gather(*follower.broker.membership._replacing.values())

                assert led(leader) is partition
                await append(leader, b"one")
                assert led(leader) is partition

        asyncio.run(scenario())


class TestTopics:
    def test_a_topic_deleted_while_a_broker_was_away_is_gone_when_it_is_back(
        self, ensemble, tmp_path
    ):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                await servers[0].broker.controller.create_topics([TopicToCreate(name="other")])
                away = servers.pop()
                number = int(away.broker.node_id)
                await away.stop()
                await servers[0].broker.controller.administer(
                    lambda controller: controller.delete_topics(["orders"])
                )

                back = await start_member(ensemble, tmp_path, number)
                servers.append(back)

                assert back.broker.topics.by_name("orders") is None
                (directory,) = back.broker.storage.directories
                assert ORDERS not in directory.partitions
                # It may have been the deletion that was wrong: the log is kept.
                assert len(list(directory.path.glob("orders-0.*-stray"))) == 1

        asyncio.run(scenario())

    def test_a_moved_partition_ends_where_it_was_sent(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                topic = await create(servers, partitions=1, replication_factor=1)
                old = leader_of(servers)
                await append(old, b"one", acks_all=False)
                target = next(each for each in servers if each is not old)
                await old.broker.controller.administer(
                    lambda controller: controller.reassign({ORDERS: [target.broker.node_id]})
                )

                await until(lambda: led(target) is not None, "the new leader")
                assert led(target).log.log_end_offset == 1
                await until(
                    lambda: ORDERS not in old.broker.storage.directories[0].partitions,
                    "an empty place",
                )
                assert topic.partitions[0].replicas == (old.broker.node_id,)

        asyncio.run(scenario())

    def test_a_partition_whose_log_starts_within_a_batch_is_moved(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path, brokers=2) as servers:
                await create(servers, partitions=1, replication_factor=1)
                old = leader_of(servers)
                await append(old, *[b"x"] * 10, acks_all=False)
                await append(old, b"y", acks_all=False)
                led(old).log.delete_records(5)
                target = next(each for each in servers if each is not old)
                await old.broker.controller.administer(
                    lambda controller: controller.reassign({ORDERS: [target.broker.node_id]})
                )

                await until(lambda: led(target) is not None, "the new leader")
                assert led(target).log.log_start_offset == 5
                assert led(target).log.log_end_offset == 11
                assert led(target).log.read(5, 1 << 20).first_offset == 0

        asyncio.run(scenario())


class TestAdministration:
    def test_a_coordinators_topic_waits_for_its_replicas(self, ensemble, tmp_path):
        """Made with fewer, it would keep those for good."""

        async def scenario():
            async with local_cluster(ensemble, tmp_path, brokers=2) as servers:
                asked = {"key_type": 1, "coordinator_keys": ("till",)}
                address = servers[0].listeners[0].address
                found = await asyncio.to_thread(find_coordinator, address, asked)
                assert found.error_code == ErrorCode.coordinator_not_available
                assert "3 replicas, and 2 brokers" in found.error_message
                assert servers[0].broker.topics.by_name("__transaction_state") is None

                servers.append(await start_member(ensemble, tmp_path, 3))
                await until(lambda: len(servers[0].broker.members) == 3, "three brokers")
                found = await asyncio.to_thread(find_coordinator, address, asked)

                assert found.error_code == ErrorCode.none
                made = servers[0].broker.topics.by_name("__transaction_state").record
                assert all(len(each.replicas) == 3 for each in made.partitions)
                assert made.configs["min.insync.replicas"] == "2"

        asyncio.run(scenario())

    def test_records_are_deleted_from_every_replica_before_the_answer(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                leader = leader_of(servers)
                await append(leader, *[b"x"] * 10)
                followers = [each for each in servers if each is not leader]

                deleted = await asyncio.to_thread(delete_records, leader.listeners[0].address, 5)

                assert (deleted.error_code, deleted.low_watermark) == (0, 5)
                assert [copy(each).log.log_start_offset for each in followers] == [5, 5]
                # A replica that is not running is not waited for.
                servers.remove(followers[0])
                await followers[0].stop()
                await until(lambda: len(leader.broker.members) == 2, "two brokers")
                deleted = await asyncio.to_thread(delete_records, leader.listeners[0].address, 7)
                assert (deleted.error_code, deleted.low_watermark) == (0, 7)
                assert copy(followers[1]).log.log_start_offset == 7

        asyncio.run(scenario())

    def test_a_broker_shows_what_it_follows_and_how_far_behind_it_is(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path, brokers=2) as servers:
                await create(servers, partitions=1, replication_factor=2)
                leader = leader_of(servers)
                follower = next(each for each in servers if each is not leader)
                await append(leader, *[b"x"] * 10)
                address = follower.listeners[0].address

                [shown] = await asyncio.to_thread(describe_log_dirs, address)

                size = copy(follower).log.size_bytes
                assert (shown.partition_index, shown.partition_size) == (0, size)
                assert shown.offset_lag == copy(follower).lag == 0

        asyncio.run(scenario())


class TestThrottle:
    @pytest.mark.parametrize("side", ["leader", "follower"])
    def test_a_throttled_move_waits_and_goes_on_when_the_limit_is_lifted(
        self, ensemble, tmp_path, side
    ):
        async def scenario():
            settings = {"replica.fetch.response.max.bytes": "1024"}
            async with local_cluster(ensemble, tmp_path, brokers=2, settings=settings) as servers:
                configs = {f"{side}.replication.throttled.replicas": "*"}
                await create(servers, partitions=1, replication_factor=1, configs=configs)
                old = leader_of(servers)
                new = next(each for each in servers if each is not old)
                limited = old if side == "leader" else new
                # A batch goes over the limit, and what comes after it must wait.
                limited.broker.settings.set_dynamic({f"{side}.replication.throttled.rate": "1"})
                for _ in range(30):
                    await append(old, bytes(100_000), acks_all=False)
                await old.broker.controller.administer(
                    lambda controller: controller.reassign({ORDERS: [new.broker.node_id]})
                )
                await until(lambda: copy(new) and copy(new).log.log_end_offset > 0, "a first piece")
                throttle = (
                    old.broker.leader_throttle if side == "leader" else new.broker.fetchers.throttle
                )
                await until(lambda: throttle.exceeded, "a rate above the limit")
                assert copy(new).log.log_end_offset < 30

                limited.broker.settings.set_dynamic({})

                await until(lambda: led(new) is not None, "the end of the move")
                assert led(new).log.log_end_offset == 30

        asyncio.run(scenario())


class TestReaders:
    def test_a_consumer_reads_from_the_follower_on_its_rack(self, ensemble, tmp_path):
        rack_aware = {
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        }

        async def scenario():
            async with local_cluster(ensemble, tmp_path, brokers=0) as servers:
                for number in (1, 2):
                    settings = {**rack_aware, "broker.rack": f"rack-{number}"}
                    servers.append(await start_member(ensemble, tmp_path, number, settings))
                await create(servers, partitions=1, replication_factor=2)
                leader = leader_of(servers)
                follower = next(each for each in servers if each is not leader)
                await append(leader, b"one", b"two")
                rack = follower.broker.settings.rack
                traffic = follower.broker.topics.by_name("orders").traffic
                before = traffic.bytes_out

                read = await asyncio.to_thread(consume, leader.listeners[0].address, rack, 2)

                assert read == [b"one", b"two"]
                assert traffic.bytes_out > before

        asyncio.run(scenario())


class TestDisk:
    def test_a_leader_whose_disk_failed_is_replaced(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                leader = leader_of(servers)
                await append(leader, b"one")
                storage = led(leader).log.storage
                storage.fail(StorageError("the disk is gone"))
                others = [each for each in servers if each is not leader]

                await until(lambda: any(led(each) for each in others), "another leader")
                new = leader_of(others)
                await until(
                    lambda: leader.broker.node_id not in led(new).state.isr, "it out of sync"
                )
                await append(new, b"two")

        asyncio.run(scenario())

    def test_a_leader_without_room_is_replaced(self, ensemble, tmp_path):
        async def scenario():
            async with local_cluster(ensemble, tmp_path) as servers:
                await create(servers, partitions=1)
                leader = leader_of(servers)
                await append(leader, b"one")
                others = [each for each in servers if each is not leader]
                partition = led(leader)
                # As its log says of a full disk, which stays online and may have room again.
                partition.no_room = True

                await until(lambda: any(led(each) for each in others), "another leader")
                await append(leader_of(others), b"two")

        asyncio.run(scenario())


def delete_records(address, before):
    partition = {"partition_index": 0, "offset": before}
    body = {"topics": [{"name": "orders", "partitions": [partition]}], "timeout": 60_000}
    with WireClient(address) as client:
        return client.ask(ApiKey.DELETE_RECORDS, 2, body).topics[0].partitions[0]


def describe_log_dirs(address):
    with WireClient(address) as client:
        [directory] = client.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None}).results
    return [each for topic in directory.topics for each in topic.partitions]


def consume(address, rack, count):
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "readers",
            "client.rack": rack,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([KafkaPartition("orders", 0, 0)])
    read = []
    while len(read) < count:
        message = consumer.poll(WAIT_SECONDS)
        if message is None:
            break
        if message.error() is None:
            read.append(message.value())
    consumer.close()
    return read
