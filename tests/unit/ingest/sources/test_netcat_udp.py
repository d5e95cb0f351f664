"""The netcat source over UDP: a datagram is an event."""

import socket

from headrace.ingest.event import Event
from headrace.ingest.sources.netcat_udp import NetcatUdpSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import source_alone

HERE = {"bind": "127.0.0.1", "port": "0"}


def test_netcat_over_udp() -> None:
    texts = {**HERE, "remoteAddressHeader": "from"}
    with source_alone("netcatudp", texts) as (source, got):
        assert isinstance(source, NetcatUdpSource)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for body in (b"one\n", b"two"):
                sender.sendto(body, ("127.0.0.1", source.server.port))
        wait_until(lambda: len(got.bodies) == 2, what="both datagrams")
    assert got.events == [Event({"from": "127.0.0.1"}, body) for body in (b"one", b"two")]
