"""How a broker reaches ZooKeeper: as whom, over TLS or not, and who else may use its nodes."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.model.error import ConfigError

Scheme = Literal["digest", "sasl"]


@dataclass(frozen=True, slots=True)
class ZooKeeperLogin:
    """A user of the ensemble.

    Attributes:
        scheme: `digest` sends user and password as they are, so it wants TLS, and needs nothing
            on the servers; `sasl` proves the password by DIGEST-MD5 to servers that know the user.
    """

    scheme: Scheme
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """What a store needs besides the ensemble's address.

    Attributes:
        login: None asks for no login, or lets the certificate of `tls` be the login.
        tls: None speaks plain TCP.
        set_acl: only this identity may change the nodes, or read those with secrets.
    """

    login: ZooKeeperLogin | None = None
    tls: ssl.SSLContext | None = None
    set_acl: bool = False


def client_tls(
    *, keystore: Path | None, truststore: Path | None, check_host: bool
) -> ssl.SSLContext:
    """Return TLS 1.2 and 1.3 to ZooKeeper, from PEM files (KIP-651).

    Args:
        keystore: the broker's key and certificate chain; None shows no certificate.
        truststore: the authorities that are believed, and no others; None believes the machine's.

    Raises:
        ConfigError: a file cannot be read, or is not PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_host
    path = truststore
    try:
        if truststore is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(truststore)
        if keystore is not None:
            path = keystore
            # A key with a password would be asked for on the terminal.
            context.load_cert_chain(keystore, password=lambda: "")
    except OSError as error:
        reason = error.strerror if not isinstance(error, ssl.SSLError) else "it is not PEM"
        raise ConfigError(f"cannot use {path} for TLS to ZooKeeper: {reason}") from error
    return context
