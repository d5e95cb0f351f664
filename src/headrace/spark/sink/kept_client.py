"""Clients that outlive a task or a commit, for the next one in the same process.

Spark makes new objects for every task and every commit, in processes that it reuses. What a client
has learned meanwhile (leaders, coordinators, a producer id) costs several requests to learn again,
which is most of what a small micro-batch asks of the brokers.

Rule 1: a kept client holds knowledge and no connection: those are left to `idle_connection`, which
        knows when one may be used again.
Rule 2: a client is taken out while it is used, and put back only when all went well. One that
        raised is never used again.
Rule 3: knowledge may be outdated. A task that takes a client must notice, and take a new one then.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MAX_KEPT: Final = 8
KEPT_SECONDS: Final = 60.0


class KeptClients(Generic[T]):
    """The clients that nothing uses at the moment. Any thread may call it.

    Example:
        client = kept.take("clicks") or connect()
        client.write(rows)
        kept.keep("clicks", client)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[T, float]] = OrderedDict()
        # A producer id must not be used by two processes.
        os.register_at_fork(after_in_child=self.forget)

    def take(self, key: Hashable) -> T | None:
        """Return the client that was kept under this key, which is then the caller's alone."""
        with self._lock:
            client, since = self._kept.pop(key, (None, 0.0))
        return client if self._clock() - since <= KEPT_SECONDS else None

    def keep(self, key: Hashable, client: T) -> None:
        """Keep a client for the next one who asks with this key; at most `MAX_KEPT` of them."""
        with self._lock:
            self._kept[key] = client, self._clock()
            self._kept.move_to_end(key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Forget all of them."""
        self._lock = threading.Lock()
        self._kept = OrderedDict()
