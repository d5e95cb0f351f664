"""The shards of a stream, listed when that is due, and which stream of its name they are of.

Rule 1: the shards are listed again when the listing is old, or when a shard has ended since, which
has children.
Rule 2: when the stream was created is asked after a listing that differs from the one before, and
once a minute: the service allows an account 20 such requests per second. It is asked after the
listing. If it has changed, the shards are listed once more, so that they are those of the stream
that is known then.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from headrace.spark.kinesis.shard_graph import Shard

_DESCRIBED_SECONDS: Final = 60.0


class ListingService(Protocol):
    """What a listing needs of the API."""

    def created(self) -> str:
        """Return when the stream was created."""
        ...

    def list_shards(self) -> tuple[list[Shard], int]:
        """Return all shards, and the service's time in milliseconds."""
        ...


class ShardListing:
    """The latest listing.

    Attributes:
        shards: all shards that the service lists.
        created: when their stream was created; None before the first listing.
        now_ms: the service's time at the listing.
    """

    def __init__(
        self, service: ListingService, interval_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._service = service
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._listed_at = self._described_at = float("-inf")
        self._ends: frozenset[str] = frozenset()
        self.shards: Sequence[Shard] = ()
        self.created: str | None = None
        self.now_ms = 0

    def refresh(self, ends: frozenset[str]) -> None:
        """List the shards if that is due.

        Args:
            ends: the shards that were read to their end.
        """
        if self._clock() - self._listed_at < self._interval_seconds and ends == self._ends:
            return
        before = self.shards
        self._list()
        is_old = self._clock() - self._described_at >= _DESCRIBED_SECONDS
        if is_old or self.shards != before:
            created, self.created = self.created, self._service.created()
            self._described_at = self._clock()
            if created != self.created:
                self._list()
        self._ends = ends

    def _list(self) -> None:
        self.shards, self.now_ms = self._service.list_shards()
        self._listed_at = self._clock()
