"""How a broker gets in at another one, and when it does not."""

import asyncio
from pathlib import Path

import pytest

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.peer.connection import PeerConnection, PeerLost
from headrace.broker.peer.connector import PeerConnector, PeerDenied
from headrace.broker.server import Server
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.model.error import ConfigError
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENER = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}


def user_file(folder: Path, text: str) -> str:
    path = folder / f"{abs(hash(text))}.users"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def settings_of(folder: Path, mechanism: str, users: str = "broker=secret") -> BrokerSettings:
    """Of the broker that comes, one of a cluster."""
    return BrokerSettings(
        {
            **LISTENER,
            "zookeeper.connect": "127.0.0.1:1",
            "log.dirs": str(folder),
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": mechanism,
            "headrace.inter.broker.user.file": user_file(folder, users),
        }
    )


def record_of(server: Server) -> BrokerRecord:
    listener = server.broker.advertised_listeners["SASL_PLAINTEXT"]
    endpoint = Endpoint(listener.name, listener.host, listener.port, listener.protocol)
    return BrokerRecord(broker_id=BrokerId(1), endpoints=(endpoint,))


async def come(folder: Path, way_of: BrokerSettings, known_as: BrokerSettings) -> PeerConnection:
    """To a broker whose cluster knows the one that comes as `known_as` says."""
    theirs = {
        **LISTENER,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "headrace.sasl.plain.users.file": user_file(folder, "broker=secret"),
        "connection.failed.authentication.delay.ms": "0",
    }
    async with local_broker(folder / "other", theirs) as server:
        known = PeerConnector(known_as, lambda _: None).login
        assert known is not None
        await server.broker.controller.administer(known.ensure_known)
        record = record_of(server)
        connection = await PeerConnector(way_of, lambda _: record).connect(BrokerId(1))
        try:
            await connection.call(ApiKey.DESCRIBE_CLUSTER, 0, {})
        finally:
            connection.close()
        return connection


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_it_logs_in_and_is_served(tmp_path: Path, mechanism: str) -> None:
    settings = settings_of(tmp_path, mechanism)

    assert asyncio.run(come(tmp_path, settings, settings)).closed


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_with_another_password_it_is_not_let_in(tmp_path: Path, mechanism: str) -> None:
    wrong = settings_of(tmp_path, mechanism, "broker=guess")

    with pytest.raises(PeerDenied, match="'broker'"):
        asyncio.run(come(tmp_path, wrong, settings_of(tmp_path, mechanism)))


def test_a_scram_user_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with local_broker(tmp_path / "data") as server:
            broker = server.broker
            for users in ("broker=secret", "broker=other"):
                login = PeerConnector(
                    settings_of(tmp_path, "SCRAM-SHA-512", users), lambda _: None
                ).login
                assert login is not None
                await broker.controller.administer(login.ensure_known)
                known.append(
                    await broker.controller.administer(lambda each: dict(each.state.credentials))
                )

    known: list[object] = []
    asyncio.run(scenario())

    assert known[0]
    assert known[0] == known[1]


def test_a_broker_that_has_no_such_listener_cannot_be_reached(tmp_path: Path) -> None:
    plain = BrokerRecord(
        broker_id=BrokerId(1), endpoints=(Endpoint("SASL_PLAINTEXT", "127.0.0.1", 1),)
    )
    way = PeerConnector(settings_of(tmp_path, "PLAIN"), lambda _: plain)

    with pytest.raises(PeerLost, match="no listener"):
        asyncio.run(way.connect(BrokerId(1)))


@pytest.mark.parametrize("users", ["", "one=1\ntwo=2"])
def test_brokers_log_in_as_one_user(tmp_path: Path, users: str) -> None:
    with pytest.raises(ConfigError, match="write one"):
        PeerConnector(settings_of(tmp_path, "PLAIN", users), lambda _: None)


def test_whoever_must_log_in_needs_a_user() -> None:
    settings = BrokerSettings(
        {
            **LISTENER,
            "zookeeper.connect": "127.0.0.1:1",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
        }
    )

    with pytest.raises(ConfigError, match=r"headrace\.inter\.broker\.user\.file"):
        PeerConnector(settings, lambda _: None)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ({"inter.broker.listener.name": "INSIDE"}, "not among listeners"),
        ({**LISTENER, "zookeeper.connect": "127.0.0.1:1"}, "no listener speaks PLAINTEXT"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "write one of them",
        ),
    ],
)
def test_a_listener_that_brokers_cannot_share_is_refused(
    texts: dict[str, str], wanted: str
) -> None:
    with pytest.raises(ConfigError, match=wanted):
        BrokerSettings(texts)
