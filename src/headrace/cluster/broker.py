"""A broker that is alive, and the configuration that was set for it while it runs.

The node `/incarnations/<id>` outlives the registrations of a broker. Its version counts them, and
is the broker's epoch. It holds the ids of the log directories that the broker registered last,
separated by blanks.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headrace.cluster.store import Node, node_path
from headrace.model.ids import BrokerId

# Returns the log directories to register; it is given those that were registered last.
ChooseDirectories = Callable[[frozenset[str]], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One advertised listener."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRecord:
    """The registration of a running broker: an ephemeral node, gone when the broker is.

    Attributes:
        epoch: another, higher number for every registration of this broker (KIP-841, KIP-903).
        home: the id of its first data directory. A registration of the same broker id with the same
            home is that of an earlier process of this broker.
        process: a random id of the process that registered.
        directories: the ids of its log directories; also of one that is missing, while the log of a
            partition that no other broker has in full may be there (`MissingLogs`).
    """

    KIND: ClassVar[str] = "brokers"

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = -1
    home: str | None = None
    process: str | None = None
    directories: tuple[str, ...] = ()

    def endpoint(self, listener: str) -> Endpoint | None:
        """Return where clients of a listener reach the broker."""
        return next((each for each in self.endpoints if each.listener == listener), None)

    def endpoint_of(self, protocol: str) -> Endpoint | None:
        """Return the broker's first listener that speaks a protocol."""
        return next((each for each in self.endpoints if each.security_protocol == protocol), None)

    def key(self) -> tuple[str, ...]:
        return (str(self.broker_id),)

    def to_json(self) -> dict[str, Any]:
        return {
            "rack": self.rack,
            "epoch": self.epoch,
            "home": self.home,
            "process": self.process,
            "directories": list(self.directories),
            "endpoints": [
                [each.listener, each.host, each.port, each.security_protocol]
                for each in self.endpoints
            ],
        }

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "BrokerRecord":
        (broker_id,) = key
        return cls(
            broker_id=BrokerId(int(broker_id)),
            rack=fields["rack"],
            epoch=fields.get("epoch", -1),
            home=fields.get("home"),
            process=fields.get("process"),
            directories=tuple(fields.get("directories", ())),
            endpoints=tuple(Endpoint(*each) for each in fields["endpoints"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """Dynamic configuration (KIP-226) of one broker, or with `broker_id` None of all of them."""

    KIND: ClassVar[str] = "broker_configs"

    broker_id: BrokerId | None
    configs: Mapping[str, str] = field(default_factory=dict)

    def key(self) -> tuple[str, ...]:
        return ("default" if self.broker_id is None else str(self.broker_id),)

    def to_json(self) -> dict[str, Any]:
        return {"configs": dict(self.configs)}

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "BrokerConfig":
        (name,) = key
        broker_id = None if name == "default" else BrokerId(int(name))
        return cls(broker_id=broker_id, configs=fields["configs"])


def incarnation_path(broker_id: BrokerId) -> str:
    return node_path("incarnations", str(broker_id))


def incarnation_data(directory_ids: Iterable[str]) -> bytes:
    return " ".join(directory_ids).encode()


def registered_directories(node: Node | None) -> frozenset[str]:
    """Return the directories of the last registration; none from an earlier release."""
    return frozenset() if node is None else frozenset(node.data.decode().split())
