"""TLS of listening sources: key stores in PEM and PKCS 12, protocols, and a stop under load."""

import datetime
import ipaddress
import json
import socket
import ssl
import time
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from headrace.ingest.settings import SettingError
from headrace.ingest.sources.http import HttpSource
from headrace.ingest.sources.syslog_multiport import SyslogMultiportSource
from headrace.ingest.sources.syslog_tcp import SyslogTcpSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import make, source_alone

PASSWORD = "shh"


class Stores:
    """One key and certificate for 127.0.0.1, as PEM, as PKCS 12, and the certificate alone."""

    def __init__(self, folder: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
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
        locked = serialization.BestAvailableEncryption(PASSWORD.encode())
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked
        )
        self.trusted = folder / "trusted.pem"
        self.trusted.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.pem = folder / "agent.pem"
        self.pem.write_bytes(secret + self.trusted.read_bytes())
        self.pkcs12 = folder / "agent.p12"
        self.pkcs12.write_bytes(
            pkcs12.serialize_key_and_certificates(b"agent", key, made, None, locked)
        )
        self.jks = folder / "agent.jks"
        self.jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")

    def client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.trusted))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def listening(store: Path, **texts: str) -> dict[str, str]:
    own = {"ssl": "true", "keystore": str(store), "keystore-password": PASSWORD}
    named = {key.replace("_", "-"): value for key, value in texts.items()}
    return {"bind": "127.0.0.1", "port": "0", **own, **named}


@pytest.mark.parametrize("kind", ["pem", "pkcs12"])
def test_http_takes_events_over_tls(stores: Stores, kind: str) -> None:
    texts = listening(getattr(stores, kind), keystore_type=kind)
    with source_alone("http", texts) as (source, got):
        assert isinstance(source, HttpSource)
        body = json.dumps([{"body": "x"}]).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{source.port}/", body)
        with urllib.request.urlopen(request, timeout=30, context=stores.client()) as answer:
            assert answer.status == 200
        with pytest.raises(OSError, match=r"reset|closed|pipe|refused|disconnected"):
            urllib.request.urlopen(f"http://127.0.0.1:{source.port}/", body, timeout=30)
    assert got.bodies == [b"x"]


def test_http_knows_flume_s_older_names(stores: Stores) -> None:
    texts = {"bind": "127.0.0.1", "port": "0", "enableSSL": "true", "keystore": str(stores.pem)}
    with source_alone("http", {**texts, "keystorePassword": PASSWORD}) as (source, _):
        assert isinstance(source, HttpSource)
        with connect(source.port, stores.client()) as peer:
            assert peer.version() == "TLSv1.3"


def test_a_silent_peer_does_not_keep_http_from_the_others(stores: Stores) -> None:
    """The handshake is made by the connection's own thread."""
    with source_alone("http", listening(stores.pem)) as (source, _):
        assert isinstance(source, HttpSource)
        with (
            socket.create_connection(("127.0.0.1", source.port)),
            connect(source.port, stores.client()) as peer,
        ):
            assert peer.version() == "TLSv1.3"


def test_syslog_comes_over_tls_and_a_stop_does_not_wait_for_the_peer(stores: Stores) -> None:
    with source_alone("syslogtcp", listening(stores.pkcs12)) as (source, got):
        assert isinstance(source, SyslogTcpSource)
        peer = connect(source.listener.port, stores.client())
        peer.sendall(b"<13>Feb  5 17:32:18 host hello\n")
        wait_until(lambda: got.bodies == [b"hello"], what="the message")
        before = time.monotonic()
    assert time.monotonic() - before < 10  # as long as it would wait for a thread
    peer.close()


def test_every_port_of_multiport_syslog_speaks_tls(stores: Stores) -> None:
    texts = {**listening(stores.pem), "ports": "0 0"}
    del texts["port"]
    with source_alone("multiport_syslogtcp", texts) as (source, got):
        assert isinstance(source, SyslogMultiportSource)
        for listener in source.listeners:
            with connect(listener.port, stores.client()) as peer:
                peer.sendall(b"<13>Feb  5 17:32:18 host hello\n")
        wait_until(lambda: got.bodies == [b"hello"] * 2, what="both messages")


@pytest.mark.parametrize(
    "texts", [{"exclude_protocols": "SSLv3 TLSv1.2"}, {"include_protocols": "TLSv1.3"}]
)
def test_a_protocol_can_be_left_out(stores: Stores, texts: dict[str, str]) -> None:
    older = stores.client()
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with source_alone("syslogtcp", listening(stores.pem, **texts)) as (source, _):
        assert isinstance(source, SyslogTcpSource)
        with pytest.raises(ssl.SSLError):
            connect(source.listener.port, older)
        with connect(source.listener.port, stores.client()) as peer:
            assert peer.version() == "TLSv1.3"


@pytest.mark.parametrize("kind", ["http", "syslogtcp", "avro"])
def test_a_java_key_store_is_refused_with_the_command_that_converts_it(
    stores: Stores, kind: str
) -> None:
    with pytest.raises(SettingError, match=r"keytool -importkeystore .* -deststoretype PKCS12"):
        make("source", kind, listening(stores.jks, keystore_type="JKS"))


@pytest.mark.parametrize("kind", ["pem", "pkcs12"])
def test_a_wrong_password_is_named_and_never_shown(stores: Stores, kind: str) -> None:
    texts = {**listening(getattr(stores, kind)), "keystore-password": "wrong-one"}
    with pytest.raises(SettingError, match="keystore-password") as caught:
        make("source", "http", texts)
    assert "wrong-one" not in str(caught.value)


def connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", port), timeout=30)
    try:
        return context.wrap_socket(raw, server_hostname="127.0.0.1")
    except BaseException:
        raw.close()
        raise
