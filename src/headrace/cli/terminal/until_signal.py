"""Commands that serve until Ctrl-C or SIGTERM, and then end cleanly, with code 0."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def until_signal() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end a block, with its `finally`s. For the main thread.

    uvicorn stops on a signal and sends it to the process once more when it has stopped. SIGTERM
    would end the process there, before anything else is closed.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
