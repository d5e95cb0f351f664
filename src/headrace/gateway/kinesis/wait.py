"""What an operation waits for while it holds no thread.

An operation that may have to wait is a generator: it yields a `Wait`, and goes on in some thread
when that is over. The threads are few and serve all streams; a shard that closes, or a broker that
is slow, must not keep them from the others.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Wait:
    """Until all futures are done and the condition holds, or the time is over.

    Attributes:
        condition: asked again whenever the view of the streams has changed.
    """

    seconds: float
    futures: "Sequence[Future[Any]]" = ()
    condition: Callable[[], bool] | None = None
