"""The REST proxy on a broker that wants TLS and a login, and that is killed meanwhile."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headrace.client.address import Address
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.server import RestServer
from headrace.gateway.rest.settings import RestSettings
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.rest_client import RestClient

JSON_TYPE = {"Content-Type": "application/vnd.kafka.json.v2+json"}
PASSWORD = "for the river only"
TOPIC = "secured"
WRITERS = 4
BATCH = 25


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    try:
        return Certificate.make(tmp_path)
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def broker(tmp_path: Path, certificate: Certificate) -> Iterator[BrokerProcess]:
    users = tmp_path / "users"
    users.write_text(f"anna={PASSWORD}\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        # The open door is for the test, to see that the broker runs; the port stays over restarts.
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},SASL_SSL://127.0.0.1:{free_port()}",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "ssl.keystore.location": str(certificate.keystore),
    }
    with BrokerProcess(tmp_path / "broker", settings) as running:
        yield running


@pytest.fixture
def client(broker: BrokerProcess, certificate: Certificate) -> ClientSettings:
    settings = ClientSettings.of(
        {
            "bootstrap.servers": broker.settings["listeners"].rpartition("//")[2],
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "anna",
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(certificate.certificate),
        }
    )
    with ConnectionPool(settings) as pool:
        assert Admin(pool).create_topics([NewTopic(TOPIC, 3, 1)]) == {TOPIC: None}
    return settings


class Writer:
    """Writes numbered texts through the proxy, one and many per request in turn."""

    def __init__(self, name: str, url: str) -> None:
        self.acknowledged: list[str] = []
        self.stopping = False
        self._name = name
        self._url = url
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def has(self, count: int) -> bool:
        """Return whether so many texts were acknowledged."""
        return len(self.acknowledged) >= count

    def stop(self) -> None:
        self.stopping = True
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        with RestClient(self._url) as connection:
            while not self.stopping:
                number += 1
                self._write(connection, number)

    def _write(self, connection: RestClient, number: int) -> None:
        count = BATCH if number % 2 else 1
        texts = [f"{self._name}-{number}-{each}-{'x' * 300}" for each in range(count)]
        body = json.dumps({"records": [{"value": each} for each in texts]}).encode()
        status, answer = connection.raw("POST", f"/topics/{TOPIC}", body, JSON_TYPE)
        assert status == 200, answer
        for text, placed in zip(texts, json.loads(answer)["offsets"], strict=True):
            if placed["offset"] is not None:
                self.acknowledged.append(text)


def test_what_is_acknowledged_is_there_once_although_the_broker_is_killed(
    broker: BrokerProcess, client: ClientSettings
) -> None:
    with RestServer(RestSettings(client=client, listen=Address("127.0.0.1", 0))) as proxy:
        writers = [Writer(f"w{number}", proxy.url) for number in range(WRITERS)]
        for _ in range(2):
            goals = [len(each.acknowledged) + 2 * BATCH for each in writers]
            for writer, goal in zip(writers, goals, strict=True):
                wait_until(
                    partial(writer.has, goal), what="records of a writer", timeout_seconds=120
                )
            broker.kill()
            broker.start()
        for each in writers:
            each.stop()

    with Reader.of_topics(client, TOPIC) as reader:
        found = [json.loads(value) for value in reader.read_all()["value"].to_pylist()]
    assert len(found) == len(set(found))
    acknowledged = {text for each in writers for text in each.acknowledged}
    assert acknowledged <= set(found)


def test_a_login_that_is_refused_for_a_while_loses_and_doubles_nothing(
    broker: BrokerProcess, client: ClientSettings
) -> None:
    users = Path(broker.settings["headrace.sasl.plain.users.file"])
    answers: list[tuple[int, bytes]] = []

    def write(text: str) -> None:
        body = json.dumps({"records": [{"value": text}]}).encode()
        with RestClient(proxy.url) as connection:
            answers.append(connection.raw("POST", f"/topics/{TOPIC}", body, JSON_TYPE))

    with RestServer(RestSettings(client=client, listen=Address("127.0.0.1", 0))) as proxy:
        write("first")
        users.write_text("anna=another\n")
        broker.kill()
        broker.start()
        waiting = threading.Thread(target=write, args=("second",))
        waiting.start()
        wait_until(lambda: "authentication_failed" in broker.log, what="a login that is refused")
        users.write_text(f"anna={PASSWORD}\n")
        broker.kill()
        broker.start()
        waiting.join(60)
        write("third")

    assert not waiting.is_alive()
    assert PASSWORD.encode() not in b"".join(text for _, text in answers)
    with Reader.of_topics(client, TOPIC) as reader:
        found = [json.loads(value) for value in reader.read_all()["value"].to_pylist()]
    assert sorted(found) == ["first", "second", "third"]
    assert [status for status, _ in answers] == [200, 200, 200]
