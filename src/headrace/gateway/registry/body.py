"""Reads the body of a request, within the bounds of `gateway.http.bounded_body`."""

import re
from collections.abc import Mapping
from typing import Final

from headrace.gateway.http.asgi import Receive
from headrace.gateway.http.bounded_body import (
    BodyTooLarge,
    BodyTooSlow,
    NoRoom,
    read_bounded_body,
)
from headrace.gateway.http.byte_budget import Share
from headrace.gateway.registry.error import RegistryError

MOST_BODY_BYTES: Final = 10 << 20
"""Ten times what a record of the topic holds by default."""

MOST_STRUCTURE_BYTES: Final = 256 << 10
"""Of JSON, each text counted as one: three bytes of it may take a hundred in memory."""

# A text without an end goes to the end, so that the search for the next one does not begin in it.
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)


class Refused(Exception):
    """The rest of the request is not read; its connection is closed."""

    def __init__(self, error: RegistryError) -> None:
        super().__init__(error)
        self.error = error


async def read_body(receive: Receive, headers: Mapping[str, str], share: Share) -> bytes:
    """Read a body, and take its bytes from a budget as they come.

    Raises:
        Refused: it is too large or too slow, or there is no room for it.
        Disconnected: the client has gone.
    """
    try:
        return await read_bounded_body(receive, headers, MOST_BODY_BYTES, share)
    except BodyTooLarge:
        raise Refused(
            RegistryError(413, f"A request has at most {MOST_BODY_BYTES} bytes.")
        ) from None
    except BodyTooSlow:
        raise Refused(RegistryError(408, "The request comes too slowly.")) from None
    except NoRoom:
        raise Refused(
            RegistryError(503, "The registry has more requests than it can hold.")
        ) from None


def has_much_structure(body: bytes) -> bool:
    """Return whether JSON has more than MOST_STRUCTURE_BYTES outside of its texts.

    It ends as soon as it has found so much, and keeps nothing.
    """
    structure = end = 0
    for match in _TEXT.finditer(body):
        structure += match.start() - end + 1
        end = match.end()
        if structure > MOST_STRUCTURE_BYTES:
            return True
    return structure + len(body) - end > MOST_STRUCTURE_BYTES
