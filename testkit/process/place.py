"""Where a server runs: this machine's loopback, or a network of its own."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The address a server there listens on, and the words before the command that starts it."""

    host: str
    prefix: tuple[str, ...] = ()


LOOPBACK = Place("127.0.0.1")
