"""How Produce and Fetch name a topic: by its name, and from version 13 on by its id (KIP-516)."""

from functools import lru_cache
from uuid import UUID

from headrace.model.error import InvalidArgument
from headrace.wire.primitive import Frame, Malformed, pack_string, read_string


def pack_topic(name: str | None, topic_id: UUID | None, by_id: bool, flexible: bool) -> bytes:
    """Return the name or the id. Raises `InvalidArgument` when the one needed is missing."""
    if by_id:
        if topic_id is None:
            raise InvalidArgument(f"this version names topics by id, and topic {name!r} has none")
        return topic_id.bytes
    if name is None:
        raise InvalidArgument(f"this version needs topic names, and topic {topic_id} has none")
    return pack_string(name, flexible)


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    """Return the id. Cached: making one takes longer than reading the rest of a partition."""
    return UUID(bytes=raw)


def read_topic(
    buffer: Frame, at: int, by_id: bool, flexible: bool
) -> tuple[str | None, UUID | None, int]:
    """Return name or id, whichever this version has, and where it ends."""
    if by_id:
        return None, _uuid(bytes(buffer[at : at + 16])), at + 16
    name, at = read_string(buffer, at, flexible)
    if name is None:
        raise Malformed(f"a topic without a name at byte {at}")
    return name, None, at
