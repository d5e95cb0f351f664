"""KIP-890 on two brokers: the leader of a partition asks the coordinator, which is the other one,
before it takes records of a transaction."""

import asyncio

from headrace.cluster.topic_command import TopicToCreate
from headrace.model.coordinator import coordinator_partition
from headrace.testing.local_cluster import local_cluster
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

STATE = "__transaction_state"
SETTINGS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
WAIT_SECONDS = 90
# The last version in which clients add partitions themselves, and the first in which Produce does.
EXPLICIT, IMPLICIT = 11, 12


def address_of(server):
    return server.broker.advertised_listeners["PLAINTEXT"].address


async def places(servers):
    """The leader of orders-0, another broker, and a transactional id which that one coordinates."""
    broker = servers[0].broker
    await broker.controller.create_topics([TopicToCreate(name="orders", partitions=1)])
    state = await broker.controller.internal_topic(STATE)
    async with asyncio.timeout(WAIT_SECONDS):
        while not all(
            each.broker.topics.exists(name, 0) for each in servers for name in ("orders", STATE)
        ):
            await asyncio.sleep(0.01)
    leader = next(
        each for each in servers if each.broker.topics.find("orders", None, 0) is not None
    )
    other = next(each for each in servers if each is not leader)
    leaders = [each.leader for each in state.record.partitions]
    named = next(
        name
        for name in (f"till-{number}" for number in range(1000))
        if leaders[coordinator_partition(name, len(leaders))] == other.broker.node_id
    )
    return leader, other, named


class Till:
    """A producer that sends exactly the given requests, to either broker."""

    def __init__(self, leader, coordinator, name):
        self.leader, self.coordinator, self.name = leader, coordinator, name
        asked = {"transactional_id": name, "transaction_timeout": 60_000}
        found = self._patiently(lambda: coordinator.ask(ApiKey.INIT_PRODUCER_ID, 4, asked))
        self.producer = {
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
        }
        self.sequence = 0

    def _patiently(self, ask):
        """A coordinator that was made a moment ago may still be reading its log."""
        answers = []

        def ready():
            answers.append(ask())
            return answers[-1].error_code not in (
                ErrorCode.coordinator_load_in_progress,
                ErrorCode.coordinator_not_available,
                ErrorCode.not_coordinator,
                ErrorCode.concurrent_transactions,
            )

        wait_until(ready, what="the coordinator", timeout_seconds=WAIT_SECONDS)
        assert answers[-1].error_code == ErrorCode.none
        return answers[-1]

    def produce(self, version, **more):
        fields = {**self.producer, "sequence": self.sequence, **more}
        data = sample_batch(b"sold", transactional=True, **fields)
        wanted = [{"name": "orders", "partition_data": [{"index": 0, "records": data}]}]
        body = {
            "transactional_id": self.name,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": wanted,
        }
        answer = self.leader.ask(ApiKey.PRODUCE, version, body)
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        self.sequence += code is ErrorCode.none
        return code

    def add(self):
        old = {"transactional_id": self.name, **self.producer}
        body = {f"v3_and_below_{key}": value for key, value in old.items()}
        body["v3_and_below_topics"] = [{"name": "orders", "partitions": [0]}]
        answer = self.coordinator.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, body)
        found = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
        assert found.partition_error_code == ErrorCode.none

    def commit(self):
        body = {"transactional_id": self.name, **self.producer, "committed": True}
        self._patiently(lambda: self.coordinator.ask(ApiKey.END_TXN, 4, body))


def test_records_of_no_transaction_stay_out_of_the_log(ensemble, tmp_path):
    def talk(leader, coordinator, name, end):
        with WireClient(leader) as one, WireClient(coordinator) as other:
            till = Till(one, other, name)

            assert till.produce(EXPLICIT) == ErrorCode.invalid_txn_state
            stranger = till.produce(EXPLICIT, producer_id=till.producer["producer_id"] + 1000)
            assert stranger == ErrorCode.invalid_producer_id_mapping
            assert till.produce(IMPLICIT, producer_epoch=9) in (
                ErrorCode.invalid_producer_epoch,
                ErrorCode.producer_fenced,
            )
            assert end() == 0

            till.add()
            assert till.produce(EXPLICIT) == ErrorCode.none
            till.commit()
            wait_until(lambda: end() == 2, what="the marker", timeout_seconds=WAIT_SECONDS)
            assert till.produce(EXPLICIT) != ErrorCode.none
            assert end() == 2

    async def scenario():
        async with local_cluster(ensemble, tmp_path, brokers=2, settings=SETTINGS) as servers:
            leader, other, name = await places(servers)
            partition = leader.broker.topics.find("orders", None, 0)
            await asyncio.to_thread(
                talk,
                address_of(leader),
                address_of(other),
                name,
                lambda: partition.log.log_end_offset,
            )

    asyncio.run(scenario())
