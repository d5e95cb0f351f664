"""TLS (1.2 and 1.3) for listeners and between brokers, on non-blocking sockets.

Keys and certificates are PEM (KIP-651): `ssl.keystore.location` is a file with the broker's private
key and its certificate chain, `ssl.truststore.location` one with the authorities whose certificates
are trusted, of clients and of other brokers. Both are read again when they have changed: those who
connect from then on see the new certificate, and connections that are open keep the old one.
"""

import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import structlog

from headrace.broker.config.settings import BrokerSettings
from headrace.model.error import ConfigError

log = structlog.get_logger(__name__)

KEYSTORE = "ssl.keystore.location"
TRUSTSTORE = "ssl.truststore.location"
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

# RFC 2253's short names; what has none keeps the one OpenSSL knows.
_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_Stamps: TypeAlias = list[tuple[int, ...] | None]
_SPECIAL = frozenset(',+"\\<>;')


class TlsSocket:
    """A connected, non-blocking socket behind TLS, with the methods of a plain one that are used.

    Rule 1: whatever would have to wait raises BlockingIOError, as on a plain socket. The handshake
    is part of the first receiving.
    Rule 2: bytes may lie decrypted here while the kernel has none: when the socket is readable, its
    owner reads until `pending` returns 0.
    """

    __slots__ = ("_ssl",)

    def __init__(self, wrapped: ssl.SSLSocket) -> None:
        self._ssl = wrapped

    def fileno(self) -> int:
        return self._ssl.fileno()

    def pending(self) -> int:
        return self._ssl.pending()

    def handshake(self) -> None:
        self._try(self._ssl.do_handshake)

    def recv(self, size: int) -> bytes:
        received: bytes = self._try(self._ssl.recv, size)
        return received

    def recv_into(self, buffer: Any) -> int:
        return int(self._try(self._ssl.recv_into, buffer))

    def send(self, data: Any) -> int:
        return int(self._try(self._ssl.send, data))

    def peer_name(self) -> str | None:
        """Return the subject of the peer's certificate, if it has shown one, as Java writes it."""
        certificate = self._ssl.getpeercert()
        return distinguished_name(certificate["subject"]) if certificate else None

    def close(self) -> None:
        # Send the closing alert, if that is possible without waiting.
        with suppress(OSError, ValueError):
            self._ssl.unwrap()
        self._ssl.close()

    @staticmethod
    def _try(call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None


def distinguished_name(subject: Any) -> str:
    """Return a certificate's subject as RFC 2253 writes it, which is how Kafka names principals.

    >>> distinguished_name(((("organizationName", "Mill, Ltd"),), (("commonName", "anna"),)))
    'CN=anna,O=Mill\\\\, Ltd'
    """
    return ",".join(
        "+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(subject)
    )


def _escaped(value: str) -> str:
    text = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") and len(text) > 1 else text


class Tls:
    """The certificate this broker shows to others, and the authorities it trusts.

    Threads: any may accept and connect; one calls `reload_if_changed`.

    Raises:
        ConfigError: a file is missing, or is not what it should be.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._read = self._stamps()
        self._unusable: _Stamps | None = None
        self._server, self._client = _contexts(settings)

    def reload_if_changed(self) -> None:
        """Read the files again if they have changed. Those that cannot be used leave the ones from
        before in use, and are tried again each time: a file that is just being written is complete
        the next time, and one that could not be read may be without looking any different."""
        found = self._stamps()
        if found == self._read:
            return
        try:
            self._server, self._client = _contexts(self._settings)
        except ConfigError as error:
            if found != self._unusable:
                log.error("certificates_not_reloaded", reason=str(error))
            self._unusable = found
        else:
            self._read, self._unusable = found, None
            log.info("certificates_reloaded")

    def _stamps(self) -> _Stamps:
        """Return what differs when a file was written, or another was put in its place. The time of
        the last change cannot be set: a copy that keeps the time of writing differs in it."""
        stamps: _Stamps = []
        for name in (KEYSTORE, TRUSTSTORE):
            text: str | None = self._settings[name]
            try:
                found = None if text is None else Path(text).stat()
            except OSError:
                found = None
            stamps.append(
                found and (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            )
        return stamps

    def accept(self, sock: socket.socket) -> TlsSocket:
        """Wrap the socket of a client that has just connected; it starts with the handshake."""
        return TlsSocket(
            self._server.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        )

    def connect(self, sock: socket.socket, host: str) -> TlsSocket:
        """Wrap a socket that is connected to `host`; the caller does the handshake first."""
        return TlsSocket(
            self._client.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        )


def _contexts(settings: BrokerSettings) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return what this broker does as a server, and as a client of other brokers."""
    keystore = _path(settings, KEYSTORE)
    if keystore is None:
        raise ConfigError(
            f"a listener speaks TLS: write with {KEYSTORE} where the PEM file with the "
            "broker's key and certificates is"
        )
    truststore = _path(settings, TRUSTSTORE)
    client_auth = settings["ssl.client.auth"]
    if client_auth != "none" and truststore is None:
        raise ConfigError(
            f"ssl.client.auth is {client_auth}: write with {TRUSTSTORE} which authorities to "
            "believe"
        )
    server = _context(ssl.PROTOCOL_TLS_SERVER, keystore, truststore)
    server.verify_mode = _CLIENT_AUTH[client_auth]
    client = _context(ssl.PROTOCOL_TLS_CLIENT, keystore, truststore)
    client.check_hostname = bool(settings["ssl.endpoint.identification.algorithm"])
    if truststore is None:
        client.load_default_certs()
    return server, client


def _path(settings: BrokerSettings, name: str) -> Path | None:
    text: str | None = settings[name]
    if text is None:
        return None
    path = Path(text)
    if not path.is_file():
        raise ConfigError(f"{name} is {text}, where no file is")
    return path


def _context(protocol: Any, keystore: Path, truststore: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        # A key behind a password would be asked for at the terminal: an empty one is wrong instead.
        context.load_cert_chain(keystore, password="")
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"{KEYSTORE}: {keystore} is no PEM file with a certificate and its key, without a "
            f"password: {error}"
        ) from error
    if truststore is not None:
        try:
            context.load_verify_locations(truststore)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{TRUSTSTORE}: {truststore} is no PEM file with certificates: {error}"
            ) from error
    return context
