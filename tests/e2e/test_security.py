"""Clients prove who they are and do what they may, on a broker with two listeners.

The PLAINTEXT listener is the administrator's door: its clients are User:ANONYMOUS, a super user
here. All other users come through SASL_PLAINTEXT.
"""

import asyncio
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from headrace.client import (
    Admin,
    ClientSettings,
    ConfigChange,
    ConfigOperation,
    ConfigResourceType,
    ConnectionPool,
)
from headrace.client import NewTopic as OwnTopic
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.peer.peer import require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORD = "correct-horse"
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


class SecureBroker:
    """The broker, its two addresses, and its administrator."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        found = re.search(r"listens on (\S+), (\S+)", process.log)
        assert found is not None
        self.open_address, self.sasl_address = found.groups()
        self.admin = AdminClient({"bootstrap.servers": self.open_address})

    def client(
        self, user: str, password: str = PASSWORD, mechanism: str = "PLAIN"
    ) -> dict[str, Any]:
        """The settings of a client that logs in."""
        return {
            "bootstrap.servers": self.sasl_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "client.id": f"client-of-{user}",
            "topic.metadata.refresh.interval.ms": 200,
        }

    def log_in(self, user: str) -> WireClient:
        """Return a client whose requests a test writes itself."""
        client = WireClient(self.sasl_address)
        client.ask(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        token = {"auth_bytes": b"\0" + f"{user}\0{PASSWORD}".encode()}
        assert not client.ask(ApiKey.SASL_AUTHENTICATE, 2, token).error_code
        return client

    def create(self, topic: str) -> None:
        self.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)

    def add_user(self, user: str, mechanism: str) -> None:
        info = ScramCredentialInfo(MECHANISMS[mechanism], 4096)
        change = UserScramCredentialUpsertion(user, info, PASSWORD.encode())
        self.admin.alter_user_scram_credentials([change])[user].result(60)

    def allow(self, *acls: AclBinding) -> None:
        for created in self.admin.create_acls(list(acls)).values():
            created.result(60)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    folder = tmp_path_factory.mktemp("secure")
    users = folder / "users"
    users.write_text(f"anna={PASSWORD}\nbob={PASSWORD}\ncarl={PASSWORD}\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "headrace.sasl.plain.users.file": str(users),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(folder / "broker", settings) as process:
        yield SecureBroker(process)


@pytest.fixture
def user(secure: SecureBroker) -> str:
    """A new user with a SCRAM credential and no rights."""
    name = f"user-{uuid4().hex[:8]}"
    secure.add_user(name, "SCRAM-SHA-256")
    return name


def acl(
    user: str,
    operation: AclOperation,
    name: str,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


def produce(settings: dict[str, Any], topic: str, **more: Any) -> KafkaError | None:
    """How a produced record ended."""
    outcome: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 60_000, **more})
    producer.produce(topic, b"x", on_delivery=lambda error, _: outcome.append(error))
    assert producer.flush(90) == 0
    return outcome[0]


def authentication_error(settings: dict[str, Any]) -> str:
    """What a client says that is not let in."""
    said: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": said.append})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        producer.poll(0.05)
        for error in said:
            if error.code() == KafkaError._AUTHENTICATION:
                return error.str()
    raise AssertionError(f"no authentication error came: {said}")


# -- who


def test_plain_logs_in(secure: SecureBroker) -> None:
    found = AdminClient(secure.client("anna")).list_topics(timeout=60)

    assert len(found.brokers) == 1


@pytest.mark.parametrize("mechanism", list(MECHANISMS))
def test_scram_logs_in(secure: SecureBroker, mechanism: str) -> None:
    secure.add_user("dora", mechanism)

    found = AdminClient(secure.client("dora", mechanism=mechanism)).list_topics(timeout=60)

    assert len(found.brokers) == 1


@pytest.mark.parametrize(
    ("who", "password", "mechanism"),
    [
        ("anna", "wrong-pony", "PLAIN"),
        ("unknown", PASSWORD, "PLAIN"),
        ("unknown", PASSWORD, "SCRAM-SHA-256"),
    ],
)
def test_a_wrong_password_is_refused_and_never_logged(
    secure: SecureBroker, who: str, password: str, mechanism: str
) -> None:
    said = authentication_error(secure.client(who, password, mechanism))

    assert "the user or the password is wrong" in said
    logged = secure.process.log
    assert "authentication failed" in logged
    assert "wrong-pony" not in logged
    assert PASSWORD not in logged


def test_a_deleted_credential_no_longer_logs_in(secure: SecureBroker, user: str) -> None:
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    secure.admin.alter_user_scram_credentials([deletion])[user].result(60)

    assert "wrong" in authentication_error(secure.client(user, mechanism="SCRAM-SHA-256"))


def test_credentials_are_described_but_not_shown(secure: SecureBroker, user: str) -> None:
    found = secure.admin.describe_user_scram_credentials([user])[user].result(60)

    infos = [(each.mechanism, each.iterations) for each in found.scram_credential_infos]
    assert infos == [(ScramMechanism.SCRAM_SHA_256, 4096)]


def test_credentials_outlive_a_restart_and_weak_ones_are_refused(
    own_broker: BrokerProcess,
) -> None:
    own_broker.settings |= {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}
    own_broker.start()
    secure = SecureBroker(own_broker)
    secure.add_user("eva", "SCRAM-SHA-512")
    weak = UserScramCredentialUpsertion(
        "eva", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 100), b"x"
    )
    with pytest.raises(KafkaException) as failed:
        secure.admin.alter_user_scram_credentials([weak])["eva"].result(60)
    assert failed.value.args[0].code() == KafkaError.UNACCEPTABLE_CREDENTIAL

    own_broker.kill()
    own_broker.start()

    secure = SecureBroker(own_broker)
    client = AdminClient(secure.client("eva", mechanism="SCRAM-SHA-512"))
    assert len(client.list_topics(timeout=60).brokers) == 1


def test_aiokafka_logs_in(secure: SecureBroker, user: str) -> None:
    from aiokafka.admin import AIOKafkaAdminClient

    async def look() -> list[Any]:
        client = AIOKafkaAdminClient(
            bootstrap_servers=secure.sasl_address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username=user,
            sasl_plain_password=PASSWORD,
        )
        await client.start()
        try:
            found: list[Any] = await client.list_topics()
            return found
        finally:
            await client.close()

    assert asyncio.run(look()) == []


@pytest.mark.interop
@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_kcat_logs_in(secure: SecureBroker, mechanism: str) -> None:
    """Debian's kcat has a librdkafka of years ago."""
    kcat = shutil.which("kcat")
    if kcat is None:
        require_peer("kcat is not installed: apt install kcat")
    if mechanism != "PLAIN":
        secure.add_user("anna", mechanism)
    options = [
        f"-X{key}={value}" for key, value in secure.client("anna", mechanism=mechanism).items()
    ]

    command = [kcat, "-L", "-m", "60", *options]  # it would wait for 5 seconds
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    assert "1 brokers" in done.stdout


class RawClient:
    """Frames by hand, on the listener that asks for authentication."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)

    def send(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(struct.pack(">i", len(each)) + each for each in frames))

    def receive(self) -> bytes | None:
        """The next frame; None when the broker has closed the connection."""
        try:
            head = self._socket.recv(4, socket.MSG_WAITALL)
        except ConnectionResetError:
            return None
        if len(head) < 4:
            return None
        return self._socket.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)

    def request(self, key: int, version: int, body: bytes) -> bytes | None:
        self.send(struct.pack(">hhih", key, version, 1, -1) + body)
        answer = self.receive()
        return None if answer is None else answer[4:]

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def raw(secure: SecureBroker) -> Iterator[RawClient]:
    client = RawClient(secure.sasl_address)
    yield client
    client.close()


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def test_before_authentication_only_the_handshake_is_served(raw: RawClient) -> None:
    assert raw.request(18, 0, b"") is not None  # ApiVersions
    assert raw.request(3, 1, struct.pack(">i", -1)) is None  # Metadata


def test_a_large_frame_before_authentication_closes_the_connection(raw: RawClient) -> None:
    raw._socket.sendall(struct.pack(">i", 600_000))

    assert raw.receive() is None


def test_an_unknown_mechanism_is_told_the_known_ones(raw: RawClient) -> None:
    answer = raw.request(17, 1, text(b"GSSAPI"))

    assert answer is not None
    assert struct.unpack(">h", answer[:2]) == (33,)
    assert b"SCRAM-SHA-512" in answer
    assert raw.receive() is None


def test_tokens_without_a_handshake_are_refused(raw: RawClient) -> None:
    answer = raw.request(36, 0, struct.pack(">i", 3) + b"abc")

    assert answer is not None
    assert struct.unpack(">h", answer[:2]) == (34,)


def test_a_failed_attempt_is_answered_late_and_is_the_last(raw: RawClient) -> None:
    raw.request(17, 1, text(b"PLAIN"))
    token = b"\0anna\0guess"
    body = struct.pack(">i", len(token)) + token

    began = time.monotonic()
    # Sent at once: one connection is one guess. Later ones could find it closed.
    raw.send(*[struct.pack(">hhih", 36, 0, 1, -1) + body] * 5)
    answer = raw.receive()
    took = time.monotonic() - began

    assert answer is not None
    assert struct.unpack(">h", answer[4:6]) == (58,)
    assert took >= 0.1
    while (rest := raw.receive()) is not None:
        assert struct.unpack(">h", rest[4:6]) == (34,)


def test_old_clients_send_bare_tokens(raw: RawClient) -> None:
    raw.request(17, 0, text(b"PLAIN"))

    raw.send(b"\0anna\0" + PASSWORD.encode())

    assert raw.receive() == b""
    assert raw.request(3, 1, struct.pack(">i", -1)) is not None


def test_a_wrong_bare_token_closes_the_connection(raw: RawClient) -> None:
    raw.request(17, 0, text(b"PLAIN"))

    raw.send(b"\0anna\0guess")

    assert raw.receive() is None


def test_a_handshake_on_an_open_listener_is_out_of_place(secure: SecureBroker) -> None:
    client = RawClient(secure.open_address)

    answer = client.request(17, 1, text(b"PLAIN"))
    client.close()

    assert answer is not None
    assert struct.unpack(">h", answer[:2]) == (34,)


def test_a_session_that_ended_closes_the_connection(own_broker: BrokerProcess) -> None:
    users = own_broker.folder / "users"
    users.write_text(f"anna={PASSWORD}\n")
    own_broker.settings |= {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "connections.max.reauth.ms": "400",
    }
    own_broker.start()
    raw = RawClient(own_broker.address)
    token = b"\0anna\0" + PASSWORD.encode()
    body = struct.pack(">i", len(token)) + token

    def log_in() -> int:
        raw.request(17, 1, text(b"PLAIN"))
        answer = raw.request(36, 1, body)
        assert answer is not None
        assert answer[:2] == b"\0\0"
        lifetime: int = struct.unpack(">q", answer[-8:])[0]
        return lifetime

    assert log_in() == 400
    assert log_in() == 400
    deadline = time.monotonic() + 60
    while raw.request(3, 1, struct.pack(">i", -1)) is not None:
        assert time.monotonic() < deadline
    raw.close()
    raw = RawClient(own_broker.address)
    log_in()
    assert raw.request(17, 1, text(b"PLAIN")) is not None
    assert raw.request(3, 1, struct.pack(">i", -1)) is None, "a handshake alone keeps no session"
    raw.close()


# -- what


def test_without_rights_nothing_is_seen_or_done(
    secure: SecureBroker, user: str, topic: str
) -> None:
    secure.create(topic)
    client = secure.client(user, mechanism="SCRAM-SHA-256")

    assert topic not in AdminClient(client).list_topics(timeout=60).topics
    error = produce(client, topic)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_topic_that_is_not_there_looks_like_one_that_is_closed(
    secure: SecureBroker, user: str
) -> None:
    error = produce(secure.client(user, mechanism="SCRAM-SHA-256"), "no-such-topic")

    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert "no-such-topic" not in secure.admin.list_topics(timeout=60).topics


def test_with_rights_a_client_writes_and_reads_in_its_group(
    secure: SecureBroker, user: str, topic: str
) -> None:
    secure.create(topic)
    client = secure.client(user, mechanism="SCRAM-SHA-256")
    secure.allow(
        acl(user, AclOperation.WRITE, topic),
        acl(user, AclOperation.READ, topic),
        acl(
            user,
            AclOperation.READ,
            "team-",
            kind=ResourceType.GROUP,
            pattern=ResourcePatternType.PREFIXED,
        ),
    )

    assert produce(client, topic, **{"enable.idempotence": True}) is None

    reader = {**client, "auto.offset.reset": "earliest"}
    consumer = Consumer({**reader, "group.id": "team-a"})
    consumer.subscribe([topic])
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is None
    consumer.commit(message, asynchronous=False)
    consumer.close()

    stranger = Consumer({**reader, "group.id": "other"})
    stranger.subscribe([topic])
    refused = stranger.poll(60)
    assert refused is not None
    assert refused.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    stranger.close()


def test_a_regular_expression_shows_only_topics_that_may_be_described(
    secure: SecureBroker, user: str, topic: str
) -> None:
    """KIP-848: the broker resolves the expression, so it checks the rights."""
    group, open_topic = f"group-{topic}", f"{topic}-open"
    secure.create(topic)
    secure.create(open_topic)
    secure.allow(acl("bob", AclOperation.READ, group, kind=ResourceType.GROUP))

    def join(client: WireClient, regex: str) -> set[Any]:
        body = {
            "group_id": group,
            "member_id": str(uuid4()),
            "member_epoch": 0,
            "rebalance_timeout": 60_000,
            "subscribed_topic_regex": regex,
            "topic_partitions": [],
        }
        joined = client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, body)
        assert not joined.error_code
        client.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            1,
            {"group_id": group, "member_id": joined.member_id, "member_epoch": -1},
        )
        return {each.topic_id for each in joined.assignment.topic_partitions}

    with secure.log_in("bob") as bob, WireClient(secure.open_address) as root:
        assert join(bob, ".*") == set()

        secure.allow(acl("bob", AclOperation.DESCRIBE, open_topic))
        assert len(join(bob, f"{topic}.*")) == 1

        assert len(join(root, f"{topic}.*")) == 2
        # Kafka resolves over all topics, those of the coordinators too.
        assert len(join(root, "__consumer_off.*")) == 1


def test_who_may_only_write_cannot_read(secure: SecureBroker, user: str, topic: str) -> None:
    secure.create(topic)
    secure.allow(acl(user, AclOperation.WRITE, topic))
    client = secure.client(user, mechanism="SCRAM-SHA-256")

    assert produce(client, topic) is None

    consumer = Consumer({**client, "group.id": "none", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    # Its group is closed to it as well, and either may be reported first.
    seen: set[int] = set()

    def refused() -> bool:
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is not None
            seen.add(message.error().code())
        return KafkaError.TOPIC_AUTHORIZATION_FAILED in seen

    wait_until(refused, what="the refusal")
    consumer.close()


def test_one_that_denies_wins(secure: SecureBroker, user: str, topic: str) -> None:
    secure.create(topic)
    secure.allow(
        acl(user, AclOperation.ALL, "*"),
        acl(user, AclOperation.WRITE, topic, permission=AclPermissionType.DENY),
    )
    client = secure.client(user, mechanism="SCRAM-SHA-256")

    error = produce(client, topic)

    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_right_that_is_taken_away_ends_at_once(
    secure: SecureBroker, user: str, topic: str
) -> None:
    secure.create(topic)
    right = acl(user, AclOperation.WRITE, topic)
    secure.allow(right)
    client = secure.client(user, mechanism="SCRAM-SHA-256")
    assert produce(client, topic) is None

    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert secure.admin.describe_acls(wanted).result(60) == [right]
    assert secure.admin.delete_acls([wanted])[wanted].result(60) == [right]

    assert secure.admin.describe_acls(wanted).result(60) == []
    assert produce(client, topic) is not None


def test_a_transaction_needs_rights_on_its_id(secure: SecureBroker, user: str, topic: str) -> None:
    secure.create(topic)
    secure.allow(acl(user, AclOperation.WRITE, topic))
    client = secure.client(user, mechanism="SCRAM-SHA-256")
    producer = Producer({**client, "transactional.id": topic})

    with pytest.raises(KafkaException) as failed:
        producer.init_transactions(60)
    assert failed.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    secure.allow(acl(user, AclOperation.WRITE, topic, kind=ResourceType.TRANSACTIONAL_ID))
    allowed = Producer({**client, "transactional.id": topic})
    allowed.init_transactions(60)
    allowed.begin_transaction()
    allowed.produce(topic, b"x")
    allowed.commit_transaction(60)


def test_a_broker_needs_no_right_but_cluster_action_in_a_transaction(
    secure: SecureBroker, topic: str
) -> None:
    """KIP-890: the broker that the producer wrote to has checked the producer's rights."""
    secure.create(topic)
    secure.allow(
        acl("carl", AclOperation.CLUSTER_ACTION, "kafka-cluster", kind=ResourceType.BROKER)
    )
    producer = {"transactional_id": f"id-{topic}", "transaction_timeout": 60_000}
    with WireClient(secure.open_address) as root, secure.log_in("carl") as other:
        wait_until(
            lambda: not root.ask(ApiKey.INIT_PRODUCER_ID, 4, producer).error_code,
            what="a producer id",
        )
        given = root.ask(ApiKey.INIT_PRODUCER_ID, 4, producer)
        wanted = {
            "transactional_id": f"id-{topic}",
            "producer_id": given.producer_id,
            "producer_epoch": given.producer_epoch,
            "topics": [{"name": topic, "partitions": [0]}],
        }
        for verify_only in (False, True):
            body = {"transactions": [wanted | {"verify_only": verify_only}]}
            (result,) = other.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 5, body).results_by_transaction
            (partition,) = result.topic_results[0].results_by_partition
            assert partition.partition_error_code == 0


def test_administration_needs_rights_on_the_cluster(
    secure: SecureBroker, user: str, topic: str
) -> None:
    client = AdminClient(secure.client(user, mechanism="SCRAM-SHA-256"))

    def attempt(call: Any) -> int:
        with pytest.raises(KafkaException) as failed:
            call()
        code: int = failed.value.args[0].code()
        return code

    mine = acl(user, AclOperation.ALL, "*")
    denied = KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert attempt(lambda: client.create_acls([mine])[mine].result(60)) == denied
    new = NewTopic(topic, 1, 1)
    assert (
        attempt(lambda: client.create_topics([new])[topic].result(60))
        == KafkaError.TOPIC_AUTHORIZATION_FAILED
    )

    secure.allow(acl(user, AclOperation.CREATE, "kafka-cluster", kind=ResourceType.BROKER))
    client.create_topics([new])[topic].result(60)
    assert topic in secure.admin.list_topics(timeout=60).topics


def test_a_topics_owner_cannot_make_it_a_mirror(
    secure: SecureBroker, user: str, topic: str
) -> None:
    """A mirror reads the source with the rights of the link's user, not of the topic's owner."""
    secure.allow(acl(user, AclOperation.ALL, topic))
    settings = ClientSettings.of(
        {
            key: str(value)
            for key, value in secure.client(user, mechanism="SCRAM-SHA-256").items()
            if key != "topic.metadata.refresh.interval.ms"
        }
    )
    link = {"headrace.mirror.link": "east"}
    change = [ConfigChange(ConfigOperation.SET, *pair) for pair in link.items()]
    with ConnectionPool(settings) as pool:
        admin = Admin(pool)
        refused = admin.create_topics([OwnTopic(topic, 1, 1, link)])[topic]
        assert refused is not None
        assert refused.code is ErrorCode.cluster_authorization_failed

        assert admin.create_topics([OwnTopic(topic, 1, 1)]) == {topic: None}
        refused = admin.alter_configs(ConfigResourceType.TOPIC, {topic: change})[topic]
        assert refused is not None
        assert refused.code is ErrorCode.cluster_authorization_failed


def test_acls_need_an_authorizer(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    right = acl("anna", AclOperation.READ, "orders")

    with pytest.raises(KafkaException) as failed:
        admin.create_acls([right])[right].result(60)

    assert failed.value.args[0].code() == KafkaError.SECURITY_DISABLED


@pytest.mark.interop
def test_kafkas_own_client_and_acl_tool(
    secure: SecureBroker, user: str, topic: str, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    secure.create(topic)
    server = ("--bootstrap-server", secure.open_address)
    added = kafka_tools.run(
        KafkaTool.ACLS,
        *server,
        *("--add", "--allow-principal", f"User:{user}", "--producer", "--topic", topic),
    ).checked()
    assert f"principal=User:{user}, host=*, operation=WRITE, permissionType=ALLOW" in added.stdout

    config = tmp_path / "client.properties"
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={login} required username="{user}" password="{PASSWORD}";\n'
    )
    kafka_tools.run(
        KafkaTool.CONSOLE_PRODUCER,
        *("--bootstrap-server", secure.sasl_address, "--topic", topic),
        *("--command-config", str(config)),
        stdin="from java\n",
    ).checked()

    consumer = Consumer({"bootstrap.servers": secure.open_address, "group.id": "check"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.value() == b"from java"
