"""The syslog sources: over TCP, on several ports, and over UDP."""

import socket

from headrace.ingest.sources.syslog_multiport import SyslogMultiportSource
from headrace.ingest.sources.syslog_tcp import SyslogTcpSource
from headrace.ingest.sources.syslog_udp import SyslogUdpSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import source_alone

LOCAL = {"host": "127.0.0.1", "port": "0"}


def test_syslog_over_tcp_in_both_framings() -> None:
    with source_alone("syslogtcp", LOCAL) as (source, got):
        assert isinstance(source, SyslogTcpSource)
        with socket.create_connection(("127.0.0.1", source.listener.port)) as connection:
            connection.sendall(b"<34>Oct 11 22:14:15 web1 su: failed\n")
            connection.sendall(b"35 <165>1 2003-10-11T22:14:15.003Z h m")
        wait_until(lambda: len(got.bodies) == 2, what="both messages")
    assert got.bodies == [b"su: failed", b"m"]
    assert [each.headers["host"] for each in got.events] == ["web1", "h"]


def test_syslog_on_several_ports_says_which() -> None:
    texts = {"host": "127.0.0.1", "ports": "0 0", "portHeader": "port"}
    with source_alone("multiport_syslogtcp", texts) as (source, got):
        assert isinstance(source, SyslogMultiportSource)
        for listener in source.listeners:
            with socket.create_connection(("127.0.0.1", listener.port)) as connection:
                connection.sendall(b"<13>Oct  1 22:14:15 web1 hello\n")
        wait_until(lambda: len(got.bodies) == 2, what="both messages")
    assert [each.headers["port"] for each in got.events] == ["0", "0"]


def test_syslog_over_udp() -> None:
    with source_alone("syslogudp", {**LOCAL, "keepFields": "all"}) as (source, got):
        assert isinstance(source, SyslogUdpSource)
        message = b"<34>Oct 11 22:14:15 web1 su: failed"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(message + b"\n", ("127.0.0.1", source.server.port))
        wait_until(lambda: len(got.bodies) == 1, what="the message")
    assert got.bodies == [message]
