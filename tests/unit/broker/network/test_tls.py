"""Listeners behind TLS, for stock clients and for our own."""

import asyncio
import errno
import os
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from structlog.testing import capture_logs

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.network import outbox, page_cache
from headrace.broker.network.tls import Tls, distinguished_name
from headrace.broker.server import Server
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.cluster.topic_command import TopicToCreate
from headrace.log.partition.log_slice import LogSlice
from headrace.model.error import ConfigError
from headrace.testing.local_broker import local_broker
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, require_peer

WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return made(tmp_path_factory.mktemp("certificate"))


def made(folder: Path, name: str = "localhost") -> Certificate:
    try:
        return Certificate.make(folder, name)
    except PeerMissing as missing:
        require_peer(str(missing))


def listener(certificate: Certificate, **more: str) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": str(certificate.keystore),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def client_of(server: Server, certificate: Certificate, **more: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.broker.advertised_listeners["SSL"].address,
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificate.certificate),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def play(
    data: Path, settings: dict[str, str], talk: Callable[[Server], object], topic: str = "orders"
) -> None:
    """A broker on the event loop, and a client that talks to it in a thread."""

    async def run() -> None:
        async with local_broker(data, settings) as server:
            await server.broker.controller.create_topics([TopicToCreate(name=topic, partitions=1)])
            await asyncio.to_thread(talk, server)

    asyncio.run(run())


def test_large_records_go_in_and_come_out(tmp_path: Path, certificate: Certificate) -> None:
    """Larger than TLS records, receive buffers and socket buffers, many in one fetch."""
    values = [bytes([number]) * 500_000 for number in range(20)]

    def talk(server: Server) -> None:
        settings = client_of(server, certificate)
        producer = Producer({**settings, "message.max.bytes": 1_000_000})
        for value in values:
            producer.produce("orders", value, partition=0)
        assert producer.flush(WAIT_SECONDS) == 0
        assert consumed(settings, len(values)) == values

    play(tmp_path, listener(certificate), talk)


def test_records_that_are_not_cached_are_read_by_threads_of_their_own_and_come_out_the_same(
    tmp_path: Path, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [bytes([number]) * 500_000 for number in range(20)]
    readers: list[str] = []

    def read(piece: LogSlice, ahead_bytes: int) -> None:
        readers.append(threading.current_thread().name)
        page_cache.read_ahead(piece, ahead_bytes)

    def talk(server: Server) -> None:
        settings = client_of(server, certificate)
        producer = Producer({**settings, "message.max.bytes": 1_000_000})
        for value in values:
            producer.produce("orders", value, partition=0)
        assert producer.flush(WAIT_SECONDS) == 0
        monkeypatch.setattr(outbox, "is_cached", lambda piece: False)
        monkeypatch.setattr(outbox, "read_ahead", read)
        assert consumed(settings, len(values)) == values

    play(tmp_path, listener(certificate), talk)

    assert len(readers) >= 10  # a window of 1 MiB each
    assert set(readers) == {"disk-read"}


def consumed(settings: dict[str, Any], count: int) -> list[bytes]:
    consumer = Consumer({**settings, "group.id": "readers"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    read: list[bytes] = []
    while len(read) < count:
        (message,) = consumer.consume(1, WAIT_SECONDS)
        assert message.error() is None, message.error()
        read.append(message.value() or b"")
    consumer.close()
    return read


def test_our_own_client_talks_to_it(tmp_path: Path, certificate: Certificate) -> None:
    def talk(server: Server) -> None:
        with ConnectionPool(ClientSettings.of(client_of(server, certificate))) as pool:
            assert list(pool.metadata().topics) == ["orders"]

    play(tmp_path, listener(certificate), talk)


def test_a_certificate_that_is_required_says_who_the_client_is(
    tmp_path: Path, certificate: Certificate
) -> None:
    anna = made(tmp_path, "anna")
    seen: list[str] = []

    def talk(server: Server) -> None:
        shown = client_of(
            server,
            certificate,
            ssl_certificate_location=str(anna.certificate),
            ssl_key_location=str(anna.key),
        )
        with ConnectionPool(ClientSettings.of(shown)) as pool:
            pool.metadata()
            seen.extend(each.principal for each in server.acceptor.connections)
        with (
            ConnectionPool(ClientSettings.of(client_of(server, certificate))) as pool,
            pytest.raises(ClientError),
        ):
            pool.metadata()

    required = {"ssl_client_auth": "required", "ssl_truststore_location": str(anna.certificate)}
    play(tmp_path / "data", listener(certificate, **required), talk)

    assert seen == ["User:CN=anna,O=Mill"]


def test_who_does_not_speak_tls_is_cut_off(tmp_path: Path, certificate: Certificate) -> None:
    def talk(server: Server) -> None:
        advertised = server.broker.advertised_listeners["SSL"]
        with socket.create_connection(
            (advertised.host, advertised.port), timeout=WAIT_SECONDS
        ) as plain:
            plain.sendall(b"\0\0\0\x0a" + bytes(10))
            with suppress(ConnectionResetError):
                while plain.recv(1024):
                    pass

    play(tmp_path, listener(certificate), talk)


def test_a_client_does_not_believe_a_stranger(tmp_path: Path, certificate: Certificate) -> None:
    stranger = made(tmp_path, "stranger")

    def talk(server: Server) -> None:
        with (
            ConnectionPool(ClientSettings.of(client_of(server, stranger))) as pool,
            pytest.raises(ClientError, match="not trusted"),
        ):
            pool.metadata()

    play(tmp_path / "data", listener(certificate), talk)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ({}, r"ssl\.keystore\.location"),
        ({"ssl.keystore.location": "/nowhere"}, "no file"),
        ({"ssl.keystore.location": __file__}, "no PEM file"),
    ],
)
def test_a_keystore_that_cannot_be_used_is_named(texts: dict[str, str], wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        Tls(BrokerSettings({"listeners": "SSL://127.0.0.1:0", **texts}))


def shown_by(server: Server) -> bytes:
    """Return the certificate that the broker shows to who connects now."""
    address = ("127.0.0.1", server.listeners[0].port)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(address, timeout=WAIT_SECONDS) as sock,
        context.wrap_socket(sock) as wrapped,
    ):
        shown = wrapped.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def test_a_replaced_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    first, second = made(tmp_path, "first"), made(tmp_path, "second")
    expected = ssl.PEM_cert_to_DER_cert(second.certificate.read_text())

    def talk(server: Server) -> None:
        tls = server.broker.peer_connector.tls
        assert tls is not None
        before = shown_by(server)
        tls.reload_if_changed()
        assert shown_by(server) == before

        first.keystore.write_text("half a file")
        tls.reload_if_changed()
        assert shown_by(server) == before

        second.keystore.replace(first.keystore)
        tls.reload_if_changed()
        assert shown_by(server) == expected != before

    play(tmp_path / "data", listener(first), talk)


def test_a_certificate_of_the_same_size_and_time_is_seen(tmp_path: Path) -> None:
    """A copy that keeps times, as `cp -p` and `rsync -t` make, into the file that is there."""
    first, second = made(tmp_path, "first"), made(tmp_path, "second")
    texts = [each.keystore.read_text() for each in (first, second)]
    before, after = (text.ljust(max(map(len, texts)), "\n") for text in texts)
    first.keystore.write_text(before)
    stat = first.keystore.stat()
    expected = ssl.PEM_cert_to_DER_cert(second.certificate.read_text())

    def talk(server: Server) -> None:
        tls = server.broker.peer_connector.tls
        assert tls is not None
        first.keystore.write_text(after)
        os.utime(first.keystore, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        tls.reload_if_changed()
        assert shown_by(server) == expected

    play(tmp_path / "data", listener(first), talk)


def test_a_certificate_that_could_not_be_read_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor was free, say: nothing about the file changes when there is one again."""
    first, second = made(tmp_path, "first"), made(tmp_path, "second")
    expected = ssl.PEM_cert_to_DER_cert(second.certificate.read_text())

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "no descriptor is free")

    def talk(server: Server) -> None:
        tls = server.broker.peer_connector.tls
        assert tls is not None
        second.keystore.replace(first.keystore)
        with monkeypatch.context() as full, capture_logs() as logged:
            full.setattr(ssl.SSLContext, "load_cert_chain", refuse)
            for _ in range(3):
                tls.reload_if_changed()
        assert sum(line["event"] == "certificates_not_reloaded" for line in logged) == 1
        tls.reload_if_changed()
        assert shown_by(server) == expected

    play(tmp_path / "data", listener(first), talk)


def test_client_certificates_need_authorities(certificate: Certificate) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location"):
        Tls(BrokerSettings(listener(certificate, ssl_client_auth="required")))


def test_a_name_is_written_as_java_does() -> None:
    subject = (
        (("countryName", "CH"),),
        (("organizationName", "Mill, Ltd"), ("organizationalUnitName", " x#")),
        (("commonName", "anna"),),
    )

    assert distinguished_name(subject) == "CN=anna,O=Mill\\, Ltd+OU=\\ x#,C=CH"
