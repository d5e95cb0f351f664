"""A connection goes from one client of a process to the next, if it is sound and theirs alone."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.client.address import Address
from headrace.client.network.idle_connection import (
    IDLE,
    IDLE_SECONDS,
    MAX_IDLE,
    PROVEN_SECONDS,
    IdleConnections,
)
from headrace.client.settings import ClientSettings, SaslSettings, TlsSettings

HERE = Address("127.0.0.1", 9092)
SETTINGS = replace(ClientSettings.of({}), reuses_connections=True)
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
        self.is_silent = False
        self.closed = False
        self.answered_at = -2 * PROVEN_SECONDS
        self.broker, self._socket = socket.socketpair()

    def reuse_for(self, settings: ClientSettings, allocate: Any) -> None:
        self.settings = settings
        self.allocate = allocate

    def answers(self, seconds: float) -> bool:
        return not self.is_silent

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
def idle(clock: Clock) -> Iterator[Any]:
    opened: list[FakeConnection] = []

    def connect(*arguments: Any) -> FakeConnection:
        opened.append(FakeConnection(*arguments))
        return opened[-1]

    yield IdleConnections(clock, connect)  # type: ignore[arg-type]
    for each in opened:
        each.close()


def test_the_next_client_gets_the_connection_with_its_own_settings(idle: Any) -> None:
    first = idle.open(HERE, SETTINGS, bytearray)
    idle.release(first)
    patient = replace(SETTINGS, request_timeout_ms=60_000)

    second = idle.open(HERE, patient, bytes)

    assert second is first
    assert (second.settings, second.allocate) == (patient, bytes)


def test_a_connection_serves_one_client_at_a_time(idle: Any) -> None:
    first = idle.open(HERE, SETTINGS)
    idle.release(first)

    assert idle.open(HERE, SETTINGS) is first
    assert idle.open(HERE, SETTINGS) is not first


def test_nothing_is_kept_of_a_client_that_does_not_ask(idle: Any) -> None:
    first = idle.open(HERE, replace(SETTINGS, reuses_connections=False))

    idle.release(first)

    assert first.closed


@pytest.mark.parametrize(
    ("address", "settings"),
    [
        (Address("127.0.0.1", 9093), SETTINGS),
        (HERE, replace(SETTINGS, client_id="another")),
        (HERE, replace(SETTINGS, sasl=ANNA)),
        (HERE, replace(SETTINGS, tls=TLS)),
        (HERE, replace(SETTINGS, reuses_connections=False)),
    ],
    ids=["another broker", "another client.id", "a login", "TLS", "a client that does not ask"],
)
def test_a_client_that_would_connect_in_another_way_gets_its_own(
    idle: Any, address: Address, settings: ClientSettings
) -> None:
    first = idle.open(HERE, SETTINGS)
    idle.release(first)

    assert idle.open(address, settings) is not first


def test_another_password_is_another_login(idle: Any) -> None:
    first = idle.open(HERE, replace(SETTINGS, sasl=ANNA))
    idle.release(first)

    other = replace(SETTINGS, sasl=replace(ANNA, password="b"))

    assert idle.open(HERE, other) is not first


def test_a_connection_that_cannot_be_reused_is_closed(idle: Any) -> None:
    first = idle.open(HERE, SETTINGS)
    first.is_reusable = False

    idle.release(first)

    assert first.closed


@pytest.mark.parametrize("what", ["closed", "written", "decrypted"])
def test_a_connection_that_the_broker_has_ended_is_not_passed_on(idle: Any, what: str) -> None:
    first = idle.open(HERE, SETTINGS)
    idle.release(first)
    if what == "closed":
        first.broker.close()
    elif what == "written":
        first.broker.sendall(b"unasked")
    else:
        first.holds_bytes = True

    assert idle.open(HERE, SETTINGS) is not first
    assert first.closed


@pytest.mark.parametrize(("seconds", "passed_on"), [(IDLE_SECONDS, True), (31.0, False)])
def test_a_connection_is_idle_for_half_a_minute_at_most(
    idle: Any, clock: Clock, seconds: float, passed_on: bool
) -> None:
    first = idle.open(HERE, SETTINGS)
    idle.release(first)
    clock.now += seconds

    assert (idle.open(HERE, SETTINGS) is first) is passed_on
    assert first.closed is not passed_on


def test_the_oldest_go_when_there_are_too_many(idle: Any) -> None:
    made = [idle.open(HERE, SETTINGS) for _ in range(MAX_IDLE + 2)]

    for each in made:
        idle.release(each)

    assert [each.closed for each in made] == [True, True] + [False] * MAX_IDLE


def test_a_broker_that_has_forgotten_its_connections_without_a_word_costs_one_wait(
    idle: Any,
) -> None:
    made = [idle.open(HERE, SETTINGS) for _ in range(3)]
    for each in made:
        each.is_silent = True
        idle.release(each)

    assert idle.open(HERE, SETTINGS) not in made
    assert all(each.closed for each in made)


@pytest.mark.parametrize(("seconds", "asked"), [(PROVEN_SECONDS, False), (1.1, True)])
def test_a_connection_that_has_just_answered_need_not_prove_itself(
    idle: Any, clock: Clock, seconds: float, asked: bool
) -> None:
    first = idle.open(HERE, SETTINGS)
    first.answered_at = clock.now
    first.is_silent = True
    idle.release(first)
    clock.now += seconds

    assert (idle.open(HERE, SETTINGS) is not first) is asked


def test_a_forked_process_leaves_the_connections_of_its_parent_alone(idle: Any) -> None:
    first = idle.open(HERE, SETTINGS)
    idle.release(first)

    idle.forget()

    assert idle.open(HERE, SETTINGS) is not first
    assert not first.closed


def test_a_fork_forgets_those_of_the_process() -> None:
    connection = FakeConnection(HERE, SETTINGS)
    IDLE.release(connection)  # type: ignore[arg-type]
    child = os.fork()
    if not child:
        os._exit(0 if not IDLE._idle else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert IDLE.open(HERE, SETTINGS) is connection
    connection.close()
