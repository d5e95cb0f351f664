"""Hands finished batches to the channel, each exactly once."""

from collections import deque
from collections.abc import Callable

from headrace.ingest.event import EventBatch
from headrace.ingest.ledger import Ledger


class Delivery:
    """Delivers batches in order and remembers one whose delivery failed.

    A Kafka channel may have committed a batch although its put failed. The ledger then has the
    batch's marks, and the batch is not delivered a second time.
    """

    def __init__(self, deliver: Callable[[EventBatch], None], ledger: Ledger) -> None:
        self._deliver = deliver
        self._ledger = ledger
        self._uncertain = False

    def run(self, ready: deque[EventBatch]) -> None:
        """Deliver batches and remove them.

        Raises:
            ChannelError: the channel did not accept the first of `ready`: call again.
        """
        while ready:
            batch = ready[0]
            if self._uncertain:
                stored, marks = self._ledger.load(), batch.marks or {}
                self._uncertain = False
                if all(stored.get(key) == mark for key, mark in marks.items()):
                    ready.popleft()
                    continue
            try:
                self._deliver(batch)
            except Exception:
                self._uncertain = True
                raise
            ready.popleft()
