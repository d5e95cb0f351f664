"""Producer ids, in blocks of 1,000. Each id is given to one producer only, for ever.

A block is claimed with a compare-and-set on one node of the cluster store *before* any of its ids
is given out. A broker that crashes loses the rest of its block: the next start claims a new one. So
ids may be skipped and are never given twice, and only one write in 1,000 producers is durable.

The node holds Kafka's own JSON: `{"version":1,"broker":0,"block_start":"0","block_end":"999"}`,
both ends included, as text because JavaScript numbers end at 2**53.
"""

import json
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from headrace.model.error import CorruptLog, HeadraceError, InvalidArgument, VersionConflict
from headrace.model.ids import BrokerId, ProducerId

BLOCK_SIZE = 1000
NODE_PATH = "/producer_ids/latest_block"
_MAX_PRODUCER_ID = 2**63 - 1
_MAX_TRIES = 100

# Kafka asks for the next block when a tenth of the current one is left.
_LOW_WATER = BLOCK_SIZE // 10


class ProducerIdsExhausted(HeadraceError):
    """All 2**63 ids are used: at a million a second that takes 292,000 years."""


class VersionedNode(Protocol):
    @property
    def data(self) -> bytes: ...

    @property
    def version(self) -> int: ...


class BlockStore(Protocol):
    """The two calls of the cluster store that claiming needs.

    `put` with `version` None creates the node; otherwise it replaces exactly that version. It
    raises `VersionConflict` when another broker was faster, and returns when the data is durable.
    """

    def get(self, path: str) -> VersionedNode | None: ...

    def put(self, path: str, data: bytes, version: int | None) -> int: ...


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The ids `first` to `last`, both included."""

    first: int
    last: int


def claim_block(store: BlockStore, broker_id: BrokerId, lowest: int = 0) -> ProducerIdBlock:
    """Claim the next block of ids durably, for this broker alone, none of them below `lowest`."""
    for _ in range(_MAX_TRIES):
        node = store.get(NODE_PATH)
        first = max(lowest, 0 if node is None else _last_claimed(node.data) + 1)
        block = ProducerIdBlock(first, first + BLOCK_SIZE - 1)
        if block.last > _MAX_PRODUCER_ID:
            raise ProducerIdsExhausted("every producer id there is has been given out")
        try:
            store.put(NODE_PATH, _encode(broker_id, block), None if node is None else node.version)
        except VersionConflict:
            continue
        return block
    raise VersionConflict(
        f"{_MAX_TRIES} times another broker claimed producer ids first: try again"
    )


def _encode(broker_id: BrokerId, block: ProducerIdBlock) -> bytes:
    return json.dumps(
        {
            "version": 1,
            "broker": broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        },
        separators=(",", ":"),
    ).encode()


def _last_claimed(data: bytes) -> int:
    try:
        return int(json.loads(data)["block_end"])
    except (ValueError, KeyError, TypeError):
        raise CorruptLog(
            f"the node {NODE_PATH} of the cluster store does not hold a block of producer ids: "
            "giving out ids without it could give one twice"
        ) from None


class ProducerIds:
    """The claimed ids that are still free.

    Claiming may wait for a disk or a network. So the owner does it off its loop when `wants_block`
    is true, and passes the block to `add_block`.
    """

    __slots__ = ("_blocks", "_free")

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()
        self._free = 0

    @property
    def wants_block(self) -> bool:
        return self._free <= _LOW_WATER

    def add_block(self, block: ProducerIdBlock) -> None:
        if not 0 <= block.first <= block.last:
            raise InvalidArgument(f"{block} is not a block of producer ids")
        self._blocks.append(range(block.first, block.last + 1))
        self._free += block.last - block.first + 1

    def take(self, lowest: int = 0) -> ProducerId | None:
        """Return an id never given before, or None until the next block is there. Ids below
        `lowest` are skipped."""
        while self._blocks and self._blocks[0][0] < lowest:
            ids = self._blocks.popleft()
            left = ids[lowest - ids[0] :]
            self._free -= len(ids) - len(left)
            if left:
                self._blocks.appendleft(left)
        if not self._free:
            return None
        ids = self._blocks.popleft()
        self._free -= 1
        if len(ids) > 1:
            self._blocks.appendleft(ids[1:])
        return ProducerId(ids[0])
