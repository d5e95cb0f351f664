"""How the proxy is set up."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.telemetry.browser_guard import is_loopback_address

DEFAULT_LISTEN: Final = Address("127.0.0.1", 8082)
INSTANCE_TIMEOUT_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """What `headrace rest` was started with.

    Attributes:
        advertise: the URL that links and consumer instances name; by default where it listens.
        instance_timeout_seconds: a consumer instance that is not used for so long is removed.
        registry: where schemas are; None for a proxy without formats that need them.
        users: the file of users; None lets everyone in.
    """

    client: ClientSettings
    listen: Address = DEFAULT_LISTEN
    advertise: str | None = None
    instance_timeout_seconds: float = INSTANCE_TIMEOUT_SECONDS
    registry: RegistryClientSettings | None = None
    users: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        return is_loopback_address(self.listen.host)
