"""The current leader (KIP-951), sent with NOT_LEADER errors so that the client need not ask for
metadata.

A `LeaderHint` stands at a partition, the `NodeEndpoint`s once at the end of the response; both are
tagged fields, so that older clients skip them.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from headrace.wire.primitive import (
    INT32,
    NOTHING,
    Frame,
    pack_string,
    pack_uvarint,
    read_count,
    read_string,
    read_tags,
)

_HINT: Final = Struct(">ii")
_LEAST_ENDPOINT_BYTES: Final = 11


class LeaderHint(NamedTuple):
    """The leader of a partition as far as the answering broker knows; -1 for unknown."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    """How to reach a broker that some `LeaderHint` names."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def hint_tag(tag: int, hint: tuple[int, int], pack: Struct = _HINT) -> bytes:
    """Return one tagged field that holds two numbers and no tagged fields of its own."""
    return bytes((tag, pack.size + 1)) + pack.pack(*hint) + NOTHING


def read_hint(buffer: Frame, at: int) -> LeaderHint:
    return LeaderHint(*_HINT.unpack_from(buffer, at))


def endpoints_tag(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Return the tagged fields of a Produce or Fetch response: tag 0 if there are endpoints."""
    if not endpoints:
        return NOTHING
    content = pack_uvarint(len(endpoints) + 1) + b"".join(
        INT32.pack(node.node_id)
        + pack_string(node.host, True)
        + INT32.pack(node.port)
        + pack_string(node.rack, True)
        + NOTHING
        for node in endpoints
    )
    return b"\x01\x00" + pack_uvarint(len(content)) + content


def read_endpoints(buffer: Frame, at: int) -> tuple[NodeEndpoint, ...]:
    count, at = read_count(buffer, at, True, _LEAST_ENDPOINT_BYTES)
    endpoints = []
    for _ in range(count):
        (node_id,) = INT32.unpack_from(buffer, at)
        host, at = read_string(buffer, at + 4, True)
        (port,) = INT32.unpack_from(buffer, at)
        rack, at = read_string(buffer, at + 4, True)
        _, at = read_tags(buffer, at)
        endpoints.append(NodeEndpoint(node_id, host or "", port, rack))
    return tuple(endpoints)
