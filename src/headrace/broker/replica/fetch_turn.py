"""Which partition is first in the next fetch of a client that has no fetch session.

A fetch leaves out partitions when it would look up too many on the disk (`fetch.consumer_fetch`). A
session puts those whose records were sent behind the others. A client without a session may name
its partitions in the same order every time: those at the end would never be read.
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from headrace.broker.replica.fetch_session import FetchedPartition, PartitionKey


class FetchTurns:
    """Remembers by connection the first partition that the last fetch left out.

    By its name, not by its place: a client may put what it has received at the end of its list, and
    the partition in the same place would be one that has had its turn.

    Bounded by the open connections. Lives on the event loop.
    """

    def __init__(self) -> None:
        self._first: WeakKeyDictionary[object, PartitionKey] = WeakKeyDictionary()

    def start(self, connection: object, partitions: Sequence[FetchedPartition]) -> int:
        """Return the place of the partition to read first: 0 unless one was left out."""
        first = self._first.get(connection)
        if first is None:
            return 0
        return next((place for place, each in enumerate(partitions) if each.key == first), 0)

    def set_first(self, connection: object, left_out: FetchedPartition | None) -> None:
        """Begin the next fetch with this partition; None if the last one left out none."""
        if left_out is None:
            self._first.pop(connection, None)
        else:
            self._first[connection] = left_out.key
