"""What the code that copies partitions needs of the broker around it."""

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Protocol

from headrace.broker.metric import BrokerMetrics
from headrace.cluster.broker import BrokerRecord
from headrace.model.ids import BrokerId


class ReplicaHost(Protocol):
    """The broker, seen from its replica fetchers."""

    @property
    def members(self) -> Mapping[BrokerId, BrokerRecord]:
        """The brokers that are running, by id."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 while it is not registered."""

    @property
    def metrics(self) -> BrokerMetrics: ...

    @property
    def log_threads(self) -> Executor:
        """Where followed logs are changed, and nothing else: thousands may wait there."""

    def broker_gone(self, record: BrokerRecord) -> None:
        """React to a broker whose machine refuses connections: its process has ended."""
