"""Cuts between servers, by the kernel and by relays: what those on either side hear of them."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.fault.broken_network import CLIENTS
from testkit.fault.namespace_network import NamespaceNetwork
from testkit.fault.relay_network import RelayNetwork
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.place import Place

PORT = 9092
SHORT_SECONDS = 0.3
LONG_SECONDS = 60.0

# Answers each connection's bytes with the same; or asks such a server, again and again, and writes
# down that it was answered.
ECHO = f"""
import socket, sys
server = socket.create_server((sys.argv[1], {PORT}))
while True:
    with server.accept()[0] as connection:
        while piece := connection.recv(100):
            connection.sendall(piece)
"""
ASK = f"""
import socket, sys
with socket.create_connection((sys.argv[1], {PORT})) as connection:
    while True:
        connection.sendall(b"x")
        if not connection.recv(1):
            break
        print("answered", flush=True)
        sys.stdin.read(1)
"""


@pytest.fixture
def network() -> Iterator[NamespaceNetwork]:
    try:
        made = NamespaceNetwork()
    except PeerMissing as missing:
        require_peer(str(missing))
    yield made
    made.close()


@contextmanager
def running(place: Place, program: str, host: str) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen(
        [*place.prefix, sys.executable, "-c", program, host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def connects(host: str) -> bool:
    try:
        with socket.create_connection((host, PORT), timeout=SHORT_SECONDS):
            return True
    except OSError:
        return False


def test_a_cut_is_silent_and_what_was_said_arrives_when_it_is_mended(
    network: NamespaceNetwork,
) -> None:
    one, other = network.place("broker 1"), network.place("broker 2")
    with running(one, ECHO, one.host):
        wait_until(lambda: connects(one.host), what="a server", timeout_seconds=LONG_SECONDS)
        with running(other, ASK, one.host) as asking:
            assert asking.stdin is not None
            assert asking.stdout is not None
            assert asking.stdout.readline() == b"answered\n"

            network.cut("broker 1", "broker 2")
            asking.stdin.write(b" ")
            asking.stdin.flush()
            os.set_blocking(asking.stdout.fileno(), False)
            still_served = connects(one.host)
            heard = asking.stdout.read()
            network.mend()

            assert still_served
            assert not heard
            assert asking.poll() is None
            os.set_blocking(asking.stdout.fileno(), True)
            assert asking.stdout.readline() == b"answered\n"


def test_clients_can_be_cut_off_too(network: NamespaceNetwork) -> None:
    place = network.place("broker 1")
    with running(place, ECHO, place.host):
        wait_until(lambda: connects(place.host), what="a server", timeout_seconds=LONG_SECONDS)

        network.cut("broker 1", CLIENTS)

        assert not connects(place.host)


def test_nothing_is_left_of_a_run_that_was_killed() -> None:
    program = (
        "from testkit.fault.namespace_network import NamespaceNetwork\n"
        "network = NamespaceNetwork()\n"
        "network.place('broker 1')\n"
        "print(network.link, flush=True)\n"
        "input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        link = process.stdout.readline().decode().strip()
        process.send_signal(signal.SIGKILL)
    if not link:
        require_peer("network namespaces cannot be made: run the tests as root")

    wait_until(
        lambda: not Path(f"/sys/class/net/{link}").exists(),
        what="the end of its cable",
        timeout_seconds=LONG_SECONDS,
    )


def test_a_relay_holds_back_what_is_said_during_a_cut_and_takes_nobody_new() -> None:
    network = RelayNetwork()
    server = socket.create_server(("127.0.0.1", 0))
    port = network.relay(server.getsockname()[1], "broker 1", lambda *_: "broker 2")
    with server, socket.create_connection(("127.0.0.1", port)) as caller:
        answering, _ = server.accept()
        with answering:
            network.cut("broker 1", "broker 2")
            caller.sendall(b"said")
            answering.settimeout(SHORT_SECONDS)
            with pytest.raises(TimeoutError):
                answering.recv(4)
            with socket.create_connection(("127.0.0.1", port)) as late:
                late.settimeout(LONG_SECONDS)
                assert late.recv(1) == b""

            network.mend()

            answering.settimeout(LONG_SECONDS)
            assert answering.recv(4) == b"said"
    network.close()
