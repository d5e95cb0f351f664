"""What a peer can get wrong on the wire.

Kafka closes the connection after any of these but one: an ApiVersions request of an unknown
version, which is answered (see `response.api_versions_fallback`).
"""

from headrace.model.error import PeerError
from headrace.wire.header import RequestHeader
from headrace.wire.primitive import Frame


class FrameTooLarge(PeerError):
    """A frame's declared size is negative or above the limit; nothing was allocated for it.

    `frames` are the whole ones that came before it in the same read.
    """

    def __init__(self, message: str, frames: list[Frame]) -> None:
        super().__init__(message)
        self.frames = frames


class MalformedRequest(PeerError):
    """The bytes of a request are not the message its header claims."""


class MalformedResponse(PeerError):
    """The bytes of a response are not the message that was asked for."""


class UnservedRequest(PeerError):
    """A well-formed header that asks for something we do not serve."""

    def __init__(self, message: str, header: RequestHeader) -> None:
        super().__init__(message)
        self.header = header


class UnknownApi(UnservedRequest):
    """An API key we do not serve."""


class UnsupportedVersion(UnservedRequest):
    """A version outside the served range of a known API."""
