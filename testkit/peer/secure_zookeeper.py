"""A real ZooKeeper that knows users by SASL and by certificate, with a port for TLS."""

from pathlib import Path

from headrace.testing.readiness import free_port
from testkit.peer.certificate import Certificate
from testkit.peer.zookeeper import ZooKeeper

USERS = {"broker": "broker-secret", "mallory": "mallory-secret"}

_JAAS = """\
Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required
    {users};
}};
"""
_AUTH = "org.apache.zookeeper.server.auth"


class SecureZooKeeper(ZooKeeper):
    """Takes logins but asks for none, as an ensemble does while its clients move to ACLs.

    Attributes:
        tls_address: of the port with TLS, which asks for a certificate.
        certificate: the server's.

    Args:
        trusted: the certificate whose holder may use the port with TLS.
    """

    def __init__(self, folder: Path, trusted: Certificate) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = Certificate.make(folder, "zookeeper")
        self._tls_port = free_port()
        self._jaas = folder / "jaas.conf"
        self.set_users(USERS)
        settings = {
            "secureClientPort": str(self._tls_port),
            "secureClientPortAddress": "127.0.0.1",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(self.certificate.keystore),
            "ssl.keyStore.type": "PEM",
            "ssl.trustStore.location": str(trusted.certificate),
            "ssl.trustStore.type": "PEM",
            "authProvider.sasl": f"{_AUTH}.SASLAuthenticationProvider",
            "authProvider.x509": f"{_AUTH}.X509AuthenticationProvider",
        }
        super().__init__(
            folder,
            settings=settings,
            java_options=[f"-Djava.security.auth.login.config={self._jaas}"],
        )

    @property
    def tls_address(self) -> str:
        return f"127.0.0.1:{self._tls_port}"

    def set_users(self, users: dict[str, str]) -> None:
        """Write the users that the next start reads."""
        lines = (f'user_{name}="{password}"' for name, password in users.items())
        self._jaas.write_text(_JAAS.format(users="\n    ".join(lines)))
