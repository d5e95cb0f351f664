"""How the registry is set up."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.store.election import SESSION_TIMEOUT_MS
from headrace.gateway.registry.store.schema_topic import DEFAULT_TOPIC
from headrace.telemetry.browser_guard import is_loopback_address

DEFAULT_LISTEN: Final = Address("127.0.0.1", 8081)
DEFAULT_GROUP: Final = "schema-registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """What `headrace registry` was started with.

    Attributes:
        advertise: where other instances reach this one; None for where it listens.
        topic: where the schemas are.
        waits_for_topic: whether to wait until it is there, instead of creating it.
        group: in which the instances elect their leader.
        eligible: whether this instance may lead.
        users: the file of users; None lets everyone in.
        peers: URLs of the other instances. With users, writes are sent on to these only.
        certificate, certificate_key: PEM files. With them the API is served over TLS only.
        certificate_authority: PEM file by which other instances' certificates are checked.
    """

    client: ClientSettings
    listen: Address = DEFAULT_LISTEN
    advertise: Address | None = None
    topic: str = DEFAULT_TOPIC
    waits_for_topic: bool = False
    group: str = DEFAULT_GROUP
    eligible: bool = True
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    users: Path | None = None
    peers: tuple[str, ...] = ()
    certificate: Path | None = None
    certificate_key: Path | None = None
    certificate_authority: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        return is_loopback_address(self.listen.host)
