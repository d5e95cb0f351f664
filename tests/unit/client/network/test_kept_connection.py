"""A connection goes from one client of a process to the next, if it is sound and theirs alone."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.network.kept_connection import KEPT_SECONDS, MOST_KEPT, KeptConnections
from headrace.client.settings import ClientSettings, SaslSettings, TlsSettings

HERE = Address("127.0.0.1", 9092)
SETTINGS = replace(ClientSettings.of({}), keeps_connections=True)
ANNA = SaslSettings(mechanism="PLAIN", username="anna", password="a")
TLS = TlsSettings(
    ca_file=None, certificate_file=None, key_file=None, key_password=None, check_host=True
)


class FakeConnection:
    """A connection whose broker is the other end of a pair of sockets."""

    def __init__(self, address: Address, settings: ClientSettings, allocate: Any = None) -> None:
        self.address = address
        self.settings = settings
        self.allocate = allocate
        self.is_reusable = True
        self.holds_bytes = False
        self.closed = False
        self.broker, self._socket = socket.socketpair()

    def pass_on(self, settings: ClientSettings, allocate: Any) -> None:
        self.settings = settings
        self.allocate = allocate

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self.closed = True
        self._socket.close()
        self.broker.close()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> Iterator[Any]:
    opened: list[FakeConnection] = []

    def connect(*arguments: Any) -> FakeConnection:
        opened.append(FakeConnection(*arguments))
        return opened[-1]

    yield KeptConnections(clock, connect)  # type: ignore[arg-type]
    for each in opened:
        each.close()


def test_the_next_client_gets_the_connection_with_its_own_settings(kept: Any) -> None:
    first = kept.open(HERE, SETTINGS, bytearray)
    kept.done(first)
    patient = replace(SETTINGS, request_timeout_ms=60_000)

    second = kept.open(HERE, patient, bytes)

    assert second is first
    assert (second.settings, second.allocate) == (patient, bytes)


def test_a_connection_serves_one_client_at_a_time(kept: Any) -> None:
    first = kept.open(HERE, SETTINGS)
    kept.done(first)

    assert kept.open(HERE, SETTINGS) is first
    assert kept.open(HERE, SETTINGS) is not first


def test_nothing_is_kept_of_a_client_that_does_not_ask(kept: Any) -> None:
    first = kept.open(HERE, replace(SETTINGS, keeps_connections=False))

    kept.done(first)

    assert first.closed


@pytest.mark.parametrize(
    ("address", "settings"),
    [
        (Address("127.0.0.1", 9093), SETTINGS),
        (HERE, replace(SETTINGS, client_id="another")),
        (HERE, replace(SETTINGS, sasl=ANNA)),
        (HERE, replace(SETTINGS, tls=TLS)),
        (HERE, replace(SETTINGS, keeps_connections=False)),
    ],
    ids=["another broker", "another client.id", "a login", "TLS", "a client that does not ask"],
)
def test_a_client_that_would_connect_in_another_way_gets_its_own(
    kept: Any, address: Address, settings: ClientSettings
) -> None:
    first = kept.open(HERE, SETTINGS)
    kept.done(first)

    assert kept.open(address, settings) is not first


def test_another_password_is_another_login(kept: Any) -> None:
    first = kept.open(HERE, replace(SETTINGS, sasl=ANNA))
    kept.done(first)

    other = replace(SETTINGS, sasl=replace(ANNA, password="b"))

    assert kept.open(HERE, other) is not first


def test_a_connection_that_cannot_be_reused_is_closed(kept: Any) -> None:
    first = kept.open(HERE, SETTINGS)
    first.is_reusable = False

    kept.done(first)

    assert first.closed


@pytest.mark.parametrize("what", ["closed", "written", "decrypted"])
def test_a_connection_that_the_broker_has_ended_is_not_passed_on(kept: Any, what: str) -> None:
    first = kept.open(HERE, SETTINGS)
    kept.done(first)
    if what == "closed":
        first.broker.close()
    elif what == "written":
        first.broker.sendall(b"unasked")
    else:
        first.holds_bytes = True

    assert kept.open(HERE, SETTINGS) is not first
    assert first.closed


@pytest.mark.parametrize(("seconds", "passed_on"), [(KEPT_SECONDS, True), (31.0, False)])
def test_a_connection_is_kept_for_half_a_minute(
    kept: Any, clock: Clock, seconds: float, passed_on: bool
) -> None:
    first = kept.open(HERE, SETTINGS)
    kept.done(first)
    clock.now += seconds

    assert (kept.open(HERE, SETTINGS) is first) is passed_on
    assert first.closed is not passed_on


def test_the_oldest_go_when_there_are_too_many(kept: Any) -> None:
    made = [kept.open(HERE, SETTINGS) for _ in range(MOST_KEPT + 2)]

    for each in made:
        kept.done(each)

    assert [each.closed for each in made] == [True, True] + [False] * MOST_KEPT


def test_a_forked_process_leaves_the_connections_of_its_parent_alone(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept.open(HERE, SETTINGS)
    kept.done(first)
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)

    assert kept.open(HERE, SETTINGS) is not first
    assert not first.closed
