"""A time in a request or response: JSON writes it in seconds, CBOR in milliseconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Milliseconds since 1970."""

    ms: int
