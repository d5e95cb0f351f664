"""Brokers that log in to each other, in a cluster that refuses every other login."""

import asyncio

import pytest

from headrace.client.address import Address
from headrace.client.network.connection import BrokerConnection
from headrace.client.settings import ClientSettings
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.testing.local_cluster import local_cluster
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, require_peer
from testkit.sample.batch import sample_batch

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WAIT_SECONDS = 90


@pytest.fixture(params=["SASL_PLAINTEXT", "SASL_SSL"])
def protocol(request):
    return request.param


@pytest.fixture
def encryption(tmp_path, protocol):
    """What brokers need for TLS, and clients."""
    if protocol != "SASL_SSL":
        return {}, {}
    try:
        made = Certificate.make(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))
    keystore, trusted = str(made.keystore), str(made.certificate)
    brokers = {"ssl.keystore.location": keystore, "ssl.truststore.location": trusted}
    return brokers, {"ssl.ca.location": trusted}


@pytest.fixture
def settings(tmp_path, protocol, encryption):
    """SCRAM between brokers, PLAIN for anna, who has no rights."""
    users = {"broker": "broker=secret", "others": "anna=apple"}
    for name, text in users.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return {
        **encryption[0],
        "listeners": f"{protocol}://127.0.0.1:0",
        "inter.broker.listener.name": protocol,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "headrace.inter.broker.user.file": str(tmp_path / "broker"),
        "headrace.sasl.plain.users.file": str(tmp_path / "others"),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:broker",
        "default.replication.factor": "2",
    }


def fetch_as_a_follower(endpoint, topic_id, replica, encryption):
    """Return the answer to anna, who pretends to be broker `replica` and to have everything."""
    login = {
        **encryption,
        "security.protocol": endpoint.protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "anna",
        "sasl.password": "apple",
    }
    connection = BrokerConnection(Address(endpoint.host, endpoint.port), ClientSettings.of(login))
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        topics=[FetchTopic(None, topic_id, [FetchPartition(0, -1, 2, -1, -1, 1 << 20)])],
        session_id=0,
        session_epoch=-1,
        forgotten=[],
        replica_id=replica,
        replica_epoch=-1,
    )
    try:
        answer = connection.call(ApiKey.FETCH, request)
    finally:
        connection.close()
    return answer.topics[0].partitions[0].error_code


def test_brokers_copy_after_they_have_logged_in_and_no_one_else_does(
    ensemble, tmp_path, settings, protocol, encryption
):
    async def scenario():
        async with local_cluster(ensemble, tmp_path, brokers=2, settings=settings) as servers:
            plan = await servers[0].broker.controller.create_topics(
                [TopicToCreate(name="orders", partitions=1)]
            )
            created = plan.outcomes["orders"]
            assert isinstance(created, TopicRecord), created
            number = created.partitions[0].leader
            leader = next(each for each in servers if each.broker.node_id == number)
            other = next(each for each in servers if each is not leader)
            async with asyncio.timeout(WAIT_SECONDS):
                # Brokers hear of a topic that another one made a moment later.
                while not all(each.broker.topics.exists("orders", 0) for each in servers):
                    await asyncio.sleep(0.01)
            partition = leader.broker.topics.find("orders", None, 0)

            appended = partition.append(sample_batch(b"one", b"two"), acks_all=True)
            async with asyncio.timeout(WAIT_SECONDS):
                await leader.broker.when_safe(partition, appended.last_offset + 1)

            copied = other.broker.topics.follower("orders", None, 0)
            assert copied.log.log_end_offset == 2
            endpoint = leader.broker.advertised_listeners[protocol]
            code = await asyncio.to_thread(
                fetch_as_a_follower, endpoint, created.topic_id, other.broker.node_id, encryption[1]
            )
            assert code == ErrorCode.cluster_authorization_failed

    asyncio.run(scenario())
