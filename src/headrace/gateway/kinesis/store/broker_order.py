"""Which broker a thread asks first, and next when that one led it nowhere."""

from dataclasses import replace

from headrace.client.address import Address
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.store.stream_topic import STREAM_PARTITION


class BrokerOrder:
    """The brokers of a cluster in turn.

    A broker that is cut off still answers Metadata, and names itself as the leader. A client that
    asks only this one never learns of another, so the next attempt begins with the next broker.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings

    def learn(self, pool: ConnectionPool) -> None:
        """Note the brokers of a pool that knows the leader of the topic of streams."""
        found = pool.known_metadata([STREAM_PARTITION]).brokers.values()
        self._set([*self.settings.bootstrap, *(each.address for each in found)])

    def turn(self) -> None:
        """Put the first broker last."""
        first, *others = self.settings.bootstrap
        self._set([*others, first])

    def _set(self, addresses: list[Address]) -> None:
        self.settings = replace(self.settings, bootstrap=list(dict.fromkeys(addresses)))
