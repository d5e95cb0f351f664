"""How the gateway is set up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.client.address import Address
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.identity.account import Account
from headrace.gateway.kinesis.limit.demand import ScalingRule
from headrace.telemetry.browser_guard import is_loopback_address

DEFAULT_LISTEN: Final = Address("127.0.0.1", 4567)
DEFAULT_ACCOUNT: Final = Account()
DEFAULT_SCALING: Final = ScalingRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisSettings:
    """What `headrace kinesis` was started with.

    Attributes:
        keys: secrets by access key id. Without any, every signature is accepted.
        principals: ARNs of keys that are of another account, by access key id.
        key_file: where both came from, to be read again when it changes; None if they stay.
        master_keys: by their ids. Streams can be encrypted under them.
        expose: patterns of plain topics that are shown as streams, such as `clicks*`.
        limits: whether the service's limits per shard, and per stream and day, apply.
        scaling: when on-demand streams get more or fewer shards.
        metrics: where Prometheus finds the figures of enhanced monitoring; None for nowhere.
        channels_to: the folder, or the URI of one, that has a folder per bucket of channels; None
            if there can be no channels.
        certificate, certificate_key: PEM files. With them the API is served over TLS only.
    """

    client: ClientSettings
    listen: Address = DEFAULT_LISTEN
    account: Account = DEFAULT_ACCOUNT
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    principals: Mapping[str, str] = field(default_factory=dict)
    key_file: Path | None = None
    master_keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    expose: tuple[str, ...] = ()
    limits: bool = True
    scaling: ScalingRule = DEFAULT_SCALING
    metrics: Address | None = None
    channels_to: str | None = None
    certificate: Path | None = None
    certificate_key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        return is_loopback_address(self.listen.host)
