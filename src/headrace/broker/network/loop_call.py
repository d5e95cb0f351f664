"""A call from a thread to the event loop, which may be closed by then."""

import asyncio
from collections.abc import Callable


def call_on(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Run `work` on the loop, unless that is closed: threads may outlive it when a broker stops."""
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:
        return
