"""TLS sockets for kazoo."""

import socket
import ssl
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from headrace.cluster.zookeeper.tls_handler import TlsHandler
from headrace.cluster.zookeeper.zookeeper_access import client_tls
from testkit.peer.certificate import Certificate
from testkit.peer.peer import PeerMissing, require_peer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    try:
        return Certificate.make(tmp_path_factory.mktemp("tls"))
    except PeerMissing as missing:
        require_peer(str(missing))


def serve_once(certificate: Certificate, data: bytes) -> tuple[str, int]:
    """Send `data` as one TLS record to the first client, from a thread."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.keystore)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        # A client that does not believe the certificate goes away in the handshake.
        with (
            listening,
            listening.accept()[0] as plain,
            suppress(OSError),
            context.wrap_socket(plain, server_side=True) as wrapped,
        ):
            wrapped.sendall(data)
            wrapped.recv(1)

    Thread(target=serve, daemon=True).start()
    address: tuple[str, int] = listening.getsockname()
    return address


def trusting(path: Path) -> TlsHandler:
    return TlsHandler(client_tls(keystore=None, truststore=path, check_host=True))


def test_a_reply_that_lies_decrypted_in_the_socket_is_ready(certificate: Certificate) -> None:
    """Two replies in one TLS record: the kernel has nothing left after the first is read."""
    handler = trusting(certificate.certificate)
    address = serve_once(certificate, b"firstsecond")
    sock = handler.create_connection(address, "127.0.0.1", 10.0)
    with sock:
        assert handler.select([sock], [], [], 10.0)[0] == [sock]
        assert sock.recv(5) == b"first"

        assert handler.select([sock], [], [], 0.0)[0] == [sock]

        assert sock.recv(6) == b"second"
        assert handler.select([sock], [], [], 0.0)[0] == []
        sock.sendall(b".")


def test_a_certificate_that_is_not_believed_is_remembered(
    certificate: Certificate, tmp_path: Path
) -> None:
    handler = trusting(Certificate.make(tmp_path, "other").certificate)
    address = serve_once(certificate, b"")

    with pytest.raises(ssl.SSLCertVerificationError):
        handler.create_connection(address, "127.0.0.1", 10.0)

    assert list(handler.untrusted) == [address]
