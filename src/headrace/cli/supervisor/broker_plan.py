"""The brokers of one `headrace up --brokers N`: their ids, addresses, folders and settings.

Without `zookeeper.connect` they are a cluster of their own, with a ZooKeeper beside them and ids
from 1 on. With it they join that ensemble's cluster, with ids from `node.id` on: so machines with
several brokers each make one cluster. The ports of `listeners` and `advertised.listeners` count up.

All brokers of a machine get its name as `broker.rack` unless that is set: they go down together, so
the replicas of a partition are spread over machines first (`cluster.placement`).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.broker.config.listener import Listener, parse_protocols
from headrace.cli.supervisor.broker_count import broker_folder
from headrace.model.broker_config import parse_broker_config
from headrace.model.error import ConfigError
from headrace.process.machine import machine_name
from headrace.process.zookeeper import HOST

_LARGEST_PORT: Final = 65535
_FILE_KEYS: Final = (
    "headrace.zookeeper.user.file",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.truststore.location",
)
# Brokers that start together lead unevenly at first: the first one up leads what the others share.
_BALANCE_SECONDS: Final = "10"


def first_broker_id(texts: Mapping[str, str]) -> int:
    """Return the id of the first broker of a machine: 1 in a cluster of its own."""
    values = parse_broker_config(dict(texts))
    return 1 if values["zookeeper.connect"] is None else int(str(values["node.id"]))


def data_directory(texts: Mapping[str, str]) -> Path:
    """Return the only data directory.

    Raises:
        ConfigError: there are several.
    """
    directories = parse_broker_config(dict(texts))["log.dirs"]
    assert isinstance(directories, tuple)
    if len(directories) > 1:
        raise ConfigError("--brokers needs one data directory: each broker gets a folder in it")
    return Path(str(directories[0]))


class BrokerPlan:
    """What each of the brokers is started with. Does no I/O.

    Args:
        texts: the configuration that all of them share.

    Attributes:
        joined: whether they join the cluster of an ensemble elsewhere.
        hands_over: whether a broker moves its leaders away before it ends.

    Raises:
        ConfigError: the configuration does not suit several brokers.
    """

    def __init__(self, brokers: int, texts: Mapping[str, str]) -> None:
        values = parse_broker_config(dict(texts))
        self.home = data_directory(texts)
        self._texts = texts
        protocols = values["listener.security.protocol.map"]
        assert isinstance(protocols, tuple)
        self._protocols = parse_protocols(tuple(map(str, protocols)))
        first = self._one_listener("listeners", values["listeners"], brokers)
        assert first is not None
        self._first = first
        self._advertised = self._one_listener(
            "advertised.listeners", values["advertised.listeners"], brokers
        )
        self.joined = values["zookeeper.connect"] is not None
        self.hands_over = values["controlled.shutdown.enable"] is True
        if self.joined and "node.id" not in texts and "broker.id" not in texts:
            raise ConfigError(
                "--brokers with --zookeeper needs --broker-id: the id of the first broker here; "
                "the others count up from it, and must not meet ids of other machines"
            )
        first_id = first_broker_id(texts)
        self.ids = range(first_id, first_id + brokers)

    def _one_listener(self, key: str, texts: object, brokers: int) -> Listener | None:
        assert isinstance(texts, tuple)
        if not texts:
            return None
        if len(texts) != 1:
            raise ConfigError(f"--brokers needs one address in {key}: each broker gets a next port")
        listener = Listener.parse(str(texts[0]), self._protocols)
        if listener.port == 0:
            raise ConfigError(
                f"--brokers needs a port to count up from in {key}: write HOST:PORT, as in "
                "--listen 127.0.0.1:9092"
            )
        if listener.port + brokers - 1 > _LARGEST_PORT:
            raise ConfigError(
                f"--brokers {brokers} from port {listener.port} on in {key}: too high"
            )
        return listener

    @property
    def zookeeper_port(self) -> int:
        """Where the ZooKeeper of a cluster of our own listens."""
        return self._first.port - 1

    @property
    def user_file(self) -> Path:
        """The brokers' user at that ZooKeeper."""
        return self.home / "zookeeper.user"

    @property
    def address(self) -> str:
        """All listeners, for people to read."""
        return ",".join(self._listener(each).address for each in self.ids)

    @property
    def local_address(self) -> str:
        """Where clients on this machine connect."""
        host = HOST if self._first.wildcard else self._first.host
        found = (replace(self._listener(each), host=host) for each in self.ids)
        return ",".join(each.address for each in found)

    def _listener(self, broker_id: int) -> Listener:
        return replace(self._first, port=self._first.port + broker_id - self.ids[0])

    def settings(self, broker_id: int) -> dict[str, str]:
        """Return the whole configuration of one broker."""
        rack = machine_name()
        settings = {
            "headrace.admin.listener": "127.0.0.1:0",
            "leader.imbalance.check.interval.seconds": _BALANCE_SECONDS,
            **({} if rack is None else {"broker.rack": rack}),
            **({} if self.joined else self._own_cluster()),
            **self._texts,
            "node.id": str(broker_id),
            "listeners": str(self._listener(broker_id)),
            "log.dirs": str(broker_folder(self.home, broker_id)),
        }
        if self._advertised is not None:
            port = self._advertised.port + broker_id - self.ids[0]
            settings["advertised.listeners"] = str(replace(self._advertised, port=port))
        if not self.joined:
            settings["zookeeper.connect"] = f"{HOST}:{self.zookeeper_port}"
        return settings

    def zookeeper_settings(self) -> dict[str, str]:
        """Return how the brokers reach ZooKeeper, with paths that hold in any working directory."""
        settings = {
            key: text
            for key, text in self.settings(self.ids[0]).items()
            if key.startswith(("zookeeper.", "headrace.zookeeper."))
        }
        files = {key: str(Path(settings[key]).resolve()) for key in _FILE_KEYS if settings.get(key)}
        return {**settings, **files}

    def _own_cluster(self) -> dict[str, str]:
        replicas = min(3, len(self.ids))
        return {
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(max(1, replicas - 1)),
            "headrace.zookeeper.user.file": str(self.user_file),
            "headrace.zookeeper.auth.scheme": "digest",
            "zookeeper.set.acl": "true",
        }
