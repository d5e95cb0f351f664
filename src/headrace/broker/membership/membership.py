"""How a broker takes part in its cluster: alone, or as one of several."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from headrace.broker.replica.partition import Partition
from headrace.cluster.broker import BrokerRecord
from headrace.model.ids import BrokerId


class Membership(Protocol):
    """This broker's part in its cluster: `StandaloneMember` or `ClusterMember`.

    Threads: event loop only.
    """

    @property
    def controller_id(self) -> BrokerId:
        """The broker that is the controller; -1 while there is none."""

    @property
    def stranded(self) -> bool:
        """Whether this broker leads a partition that is stranded (`Partition`, rule 4): what it
        knows of other leaders is old then."""

    async def join(self, record: BrokerRecord) -> None:
        """Register this broker. The logs are open, and the addresses in `record` are bound.

        Raises:
            BrokerIdTaken: another broker runs under this id.
            StorageError: the cluster's store cannot be reached.
        """

    async def leave(self) -> None:
        """Hand over what this broker leads, and stop copying."""

    async def with_retries(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run a step that writes to the store.

        Retry while the store may be unreachable for a moment.
        """

    def propose_isr(self, partition: Partition, isr: frozenset[BrokerId]) -> None:
        """Let the cluster's state adopt other in-sync replicas of a partition that is led here."""

    def broker_gone(self, record: BrokerRecord) -> None:
        """React to another broker whose process has ended."""
