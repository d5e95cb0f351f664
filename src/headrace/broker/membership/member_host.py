"""What a member of a cluster needs of the broker that it registers."""

import asyncio
from typing import Protocol

from headrace.broker.membership.controller_client import ControllerClient
from headrace.broker.membership.metadata_applier import MetadataApplier, MetadataTarget
from headrace.model.clock import Clock


class MemberHost(MetadataTarget, Protocol):
    """The broker, seen from its membership."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def broker_epoch(self) -> int:
        """The epoch that this process registered last; -1 before it did."""

    @property
    def controller(self) -> ControllerClient: ...

    @property
    def applier(self) -> MetadataApplier: ...
