"""A broker without others: its store is its own, and it is always the controller."""

from collections.abc import Awaitable, Callable

from headrace.broker.membership.controller_client import ControllerClient
from headrace.broker.membership.metadata_applier import MetadataApplier
from headrace.broker.replica.partition import Partition
from headrace.cluster.broker import BrokerRecord
from headrace.model.ids import BrokerId


class StandaloneMember:
    """A `Membership` of one."""

    stranded = False

    def __init__(
        self, node_id: BrokerId, controller: ControllerClient, applier: MetadataApplier
    ) -> None:
        self.controller_id = node_id
        self._controller = controller
        self._applier = applier

    async def join(self, record: BrokerRecord) -> None:
        await self._applier.prepare_logs()
        await self._controller.administer(lambda controller: controller.register(record))

    async def leave(self) -> None:
        """Do nothing: no other broker could take over."""

    async def with_retries(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run the step once: a disk that failed does not come back."""
        await step()

    def propose_isr(self, partition: Partition, isr: frozenset[BrokerId]) -> None:
        """Do nothing: every partition has one replica."""

    def broker_gone(self, record: BrokerRecord) -> None:
        """Do nothing: there is no other broker."""
