"""The command line on a broker that requires authentication."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headrace.cli.rolling_restart import RollingRestart, store_problem
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.testing.quick_settings import QUICK_SETTINGS
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace

PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A listener where everyone may do everything, and a SASL one. Anna may log in there by every
    mechanism, and may do nothing unless a test allows it."""
    folder = tmp_path_factory.mktemp("secure-cli")
    users = folder / "users"
    users.write_text(f"anna={PASSWORD}\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "headrace.sasl.plain.users.file": str(users),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with BrokerProcess(folder / "broker", settings) as process:
        found = re.search(r"listens on (\S+), (\S+)", process.log)
        assert found is not None
        admin = AdminClient({"bootstrap.servers": found[1]})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion("anna", info, PASSWORD.encode())
            admin.alter_user_scram_credentials([change])["anna"].result(90)
        yield found[1], found[2]


@pytest.fixture
def address(addresses: tuple[str, str]) -> str:
    """The listener where Anna logs in."""
    return addresses[1]


ANNA = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "anna",
    "sasl.password": PASSWORD,
}


def as_anna(address: str, mechanism: str, password: str, *arguments: str) -> Finished:
    settings = {**ANNA, "sasl.mechanism": mechanism, "sasl.password": password}
    options = [word for key, value in settings.items() for word in ("-X", f"{key}={value}")]
    return run_headrace(*arguments, "-b", address, *options)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in(address: str, mechanism: str) -> None:
    ended = as_anna(address, mechanism, PASSWORD, "cluster", "health")
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_one_sentence(address: str, mechanism: str) -> None:
    ended = as_anna(address, mechanism, "guess", "topic", "list")
    assert ended.code == 1
    assert ended.err.startswith("headrace: authentication failed: ")
    assert ended.err.count("\n") == 1


def test_a_refused_operation_is_reported(address: str) -> None:
    ended = as_anna(address, "PLAIN", PASSWORD, "topic", "create", "forbidden")
    assert ended.code == 1
    assert "AUTHORIZATION_FAILED" in ended.out


def test_a_client_that_does_not_log_in_is_refused(address: str) -> None:
    ended = run_headrace("topic", "list", "-b", address)
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "if it asks for a login, set security.protocol" in ended.err


def test_one_file_logs_in_commands_of_functions_too(address: str, tmp_path: Path) -> None:
    client = tmp_path / "client.properties"
    line = f'x.PlainLoginModule required username="anna" password="{PASSWORD}";'
    client.write_text(
        f"bootstrap.servers={address}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.jaas.config={line}\n"
    )
    environment = {CLIENT_CONFIG_VARIABLE: str(client)}

    health = run_headrace("cluster", "health", environment=environment)
    created = run_headrace("drpc", "create", "exclaim", environment=environment)

    assert (health.code, health.err) == (0, "")
    # Anna has logged in, and may not create topics.
    assert (created.code, created.err) == (1, "headrace: not allowed to create this topic\n")


@pytest.fixture(scope="module")
def broker_with_hidden_topic(addresses: tuple[str, str]) -> int:
    """The id of the broker. Anna may look at the cluster, and does not see the topic `hidden`."""
    admin = AdminClient({"bootstrap.servers": addresses[0]})
    admin.create_topics([NewTopic("hidden", 1, 1)])["hidden"].result(60)
    allowed = AclBinding(
        *(ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL, "User:anna", "*"),
        *(AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    )
    admin.create_acls([allowed])[allowed].result(60)
    (broker,) = admin.list_topics(timeout=60).brokers
    return int(broker)


def test_a_user_that_does_not_see_all_topics_restarts_no_broker(
    address: str, broker_with_hidden_topic: int, tmp_path: Path
) -> None:
    settings = {**ANNA, "bootstrap.servers": address}

    with pytest.raises(ClientError, match=r"no broker is restarted: hidden-0 .*cannot be seen"):
        RollingRestart(tmp_path, settings, 1.0).check([broker_with_hidden_topic])


def test_a_user_that_does_not_see_all_topics_empties_no_broker(
    address: str, broker_with_hidden_topic: int
) -> None:
    leaving = str(broker_with_hidden_topic)

    ended = as_anna(address, "PLAIN", PASSWORD, "cluster", "decommission", leaving)

    assert ended.code == 1, ended.out
    assert "nothing is moved: hidden-0 cannot be seen by this user" in ended.err


def test_a_user_that_may_not_alter_the_cluster_is_sent_to_log_in(
    addresses: tuple[str, str],
) -> None:
    settings = {**ANNA, "bootstrap.servers": addresses[1]}
    with ConnectionPool(ClientSettings.of(settings)) as pool:
        (broker,) = pool.metadata(()).brokers

        assert "who may alter the cluster" in str(store_problem(pool, broker))
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": addresses[0]})) as pool:
        pool.metadata(())

        assert store_problem(pool, broker) is None
