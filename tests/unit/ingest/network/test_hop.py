"""From agent to agent: our Avro and Thrift sinks to our sources, and invalid peers."""

import datetime
import hashlib
import ipaddress
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.sinks.remote import RemoteSink
from headrace.ingest.sources.avro import AvroSource
from headrace.ingest.sources.thrift import ThriftSource
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import RecordingProcessor, make, source_alone

EVENTS = [Event({"host": "ä", "n": ""}, b"\x00\xffbody"), Event({}, b""), Event({"a": "b"}, b"x")]


@contextmanager
def hop(kind: str, **texts: str) -> Iterator[tuple[RemoteSink, RecordingProcessor]]:
    with source_alone(kind, {"bind": "127.0.0.1", "port": "0", **texts}) as (source, got):
        assert isinstance(source, AvroSource | ThriftSource)
        where = {"hostname": "127.0.0.1", "port": str(source.listener.port)}
        sink = make("sink", kind, {**where, **texts})
        assert isinstance(sink, RemoteSink)
        try:
            yield sink, got
        finally:
            sink.stop()


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("avro", {}),
        ("avro", {"compression-type": "deflate"}),
        ("thrift", {}),
        ("thrift", {"protocol": "binary"}),
    ],
)
def test_events_arrive_as_they_were_sent(kind: str, texts: dict[str, str]) -> None:
    with hop(kind, **texts) as (sink, got):
        sink.deliver(EventBatch.of(EVENTS))
        sink.deliver(EventBatch.plain([b"y" * 300_000] * 3))
    assert got.events[:3] == EVENTS
    assert got.bodies[3:] == [b"y" * 300_000] * 3
    assert len(got.batches) == 2


@pytest.mark.parametrize("kind", ["avro", "thrift"])
def test_a_full_channel_at_the_next_hop_fails_the_batch_and_not_the_hop(kind: str) -> None:
    with hop(kind) as (sink, got):
        got.refusals = 1
        with pytest.raises(DeliveryFailed, match="its channel may be full"):
            sink.deliver(EventBatch.plain([b"x"]))
        sink.deliver(EventBatch.plain([b"x"]))
    assert got.bodies == [b"x"]


@pytest.mark.parametrize("kind", ["avro", "thrift"])
def test_an_unreachable_agent_is_a_failed_delivery(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    sink = make("sink", kind, {"hostname": "127.0.0.1", "port": str(port)})
    assert isinstance(sink, RemoteSink)
    with pytest.raises(DeliveryFailed, match=r"events did not reach 127\.0\.0\.1"):
        sink.deliver(EventBatch.plain([b"x"]))


def answer_to(kind: str, sent: bytes) -> bytes:
    """Return what a source answers to some bytes before it closes the connection."""
    with source_alone(kind, {"bind": "127.0.0.1", "port": "0"}) as (source, got):
        assert isinstance(source, AvroSource | ThriftSource)
        with socket.create_connection(("127.0.0.1", source.listener.port), 30) as peer:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            answered = b""
            while data := peer.recv(65_536):
                answered += data
        assert got.batches == []
    return answered


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ii", 1, -1),
        struct.pack(">iii", 1, 1, 2**31 - 1),
        struct.pack(">iii", 1, 1, 5) + b"abcde",
        struct.pack(">iii", 1, 1, 100) + b"short",
        b"\x00" * 7,
    ],
)
def test_broken_avro_frames_end_the_connection_and_nothing_else(sent: bytes) -> None:
    assert answer_to("avro", sent) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">i", -5),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 8) + b"\x82\x21\x01\x06app" + b"\xff",
        struct.pack(">i", 100) + b"short",
    ],
)
def test_broken_thrift_frames_end_the_connection_and_nothing_else(sent: bytes) -> None:
    assert answer_to("thrift", sent) == b""


def test_a_client_of_another_protocol_gets_ours_first() -> None:
    unknown = hashlib.md5(b"what", usedforsecurity=False).digest()
    message = unknown + b"\x00" + unknown + b"\x00"
    answered = answer_to("avro", struct.pack(">iii", 7, 1, len(message)) + message)
    assert answered[:4] == struct.pack(">i", 7)
    assert b"AvroSourceProtocol" in answered


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PEM file with a key and a certificate for 127.0.0.1 that it signed itself."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "agent")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "agent.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize("kind", ["avro", "thrift"])
def test_a_hop_can_be_encrypted_and_knows_whom_it_trusts(kind: str, certificate: Path) -> None:
    listening = {"bind": "127.0.0.1", "port": "0", "ssl": "true", "keystore": str(certificate)}
    with source_alone(kind, listening) as (source, got):
        assert isinstance(source, AvroSource | ThriftSource)
        where = {"hostname": "127.0.0.1", "port": str(source.listener.port), "ssl": "true"}
        stranger = make("sink", kind, where)
        friend = make("sink", kind, {**where, "truststore": str(certificate)})
        assert isinstance(stranger, RemoteSink)
        assert isinstance(friend, RemoteSink)
        with pytest.raises(DeliveryFailed, match="certificate verify failed"):
            stranger.deliver(EventBatch.plain([b"no"]))
        friend.deliver(EventBatch.of(EVENTS))
        friend.stop()
        stranger.stop()
    assert got.events == EVENTS


def test_a_key_store_that_is_no_pem_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    texts = {"bind": "127.0.0.1", "port": "1", "ssl": "true", "keystore": f"{tmp_path}/store.jks"}
    with pytest.raises(ConfigError, match="in Java's own format"):
        make("source", "avro", texts)


@pytest.mark.parametrize("kind", ["avro", "thrift"])
def test_an_event_with_far_too_many_headers_is_refused_and_the_next_one_is_not(kind: str) -> None:
    many = {str(number): "" for number in range(100_000 if kind == "avro" else 20_000)}
    with hop(kind) as (sink, got):
        with pytest.raises(DeliveryFailed):
            sink.deliver(EventBatch.plain([b"x"], many))
        sink.deliver(EventBatch.plain([b"y"]))
    assert got.bodies == [b"y"]
