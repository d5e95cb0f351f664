"""No producer id is ever given twice."""

from dataclasses import dataclass, field

import pytest

from headrace.model.error import CorruptLog, InvalidArgument, VersionConflict
from headrace.model.ids import BrokerId
from headrace.transactions.producer_ids import (
    NODE_PATH,
    ProducerIdBlock,
    ProducerIds,
    ProducerIdsExhausted,
    claim_block,
)


@dataclass
class StoredNode:
    data: bytes
    version: int


@dataclass
class MemoryStore:
    nodes: dict[str, StoredNode] = field(default_factory=dict)
    lost_races: int = 0

    def get(self, path):
        return self.nodes.get(path)

    def put(self, path, data, version):
        if self.lost_races:
            self.lost_races -= 1
            claim_block(MemoryStore(self.nodes), BrokerId(99))
        node = self.nodes.get(path)
        if (None if node is None else node.version) != version:
            raise VersionConflict("another was faster")
        self.nodes[path] = StoredNode(data, 0 if version is None else version + 1)
        return self.nodes[path].version


def test_blocks_follow_one_another():
    store = MemoryStore()

    blocks = [claim_block(store, BrokerId(1)) for _ in range(3)]

    assert blocks == [
        ProducerIdBlock(0, 999),
        ProducerIdBlock(1000, 1999),
        ProducerIdBlock(2000, 2999),
    ]


def test_the_node_holds_kafkas_json():
    store = MemoryStore()

    claim_block(store, BrokerId(7))

    assert store.nodes[NODE_PATH].data == (
        b'{"version":1,"broker":7,"block_start":"0","block_end":"999"}'
    )


def test_a_block_lost_to_another_broker_is_not_used():
    store = MemoryStore(lost_races=2)

    assert claim_block(store, BrokerId(1)) == ProducerIdBlock(2000, 2999)


def test_a_node_that_cannot_be_read_stops_everything():
    store = MemoryStore({NODE_PATH: StoredNode(b"{}", 0)})

    with pytest.raises(CorruptLog, match="could give one twice"):
        claim_block(store, BrokerId(1))


def test_the_end_of_all_ids_is_an_error():
    last = b'{"block_end":"%d"}' % (2**63 - 10)
    store = MemoryStore({NODE_PATH: StoredNode(last, 0)})

    with pytest.raises(ProducerIdsExhausted):
        claim_block(store, BrokerId(1))


def test_the_very_last_block_is_given_out():
    last = b'{"block_end":"%d"}' % (2**63 - 1001)
    store = MemoryStore({NODE_PATH: StoredNode(last, 0)})

    assert claim_block(store, BrokerId(1)).last == 2**63 - 1


def test_after_many_lost_races_the_caller_tries_again_later():
    with pytest.raises(VersionConflict, match="try again"):
        claim_block(MemoryStore(lost_races=1_000), BrokerId(1))


def test_ids_come_in_order_and_once():
    ids = ProducerIds()
    ids.add_block(ProducerIdBlock(0, 2))
    ids.add_block(ProducerIdBlock(1000, 1001))

    assert [ids.take() for _ in range(6)] == [0, 1, 2, 1000, 1001, None]


def test_the_next_block_is_wanted_before_the_last_id_is_gone():
    ids = ProducerIds()
    assert ids.wants_block
    ids.add_block(ProducerIdBlock(0, 999))
    assert not ids.wants_block

    for _ in range(900):
        ids.take()

    assert ids.wants_block
    assert ids.take() == 900


@pytest.mark.parametrize("block", [ProducerIdBlock(5, 4), ProducerIdBlock(-1, 4)])
def test_a_block_must_hold_ids(block):
    with pytest.raises(InvalidArgument):
        ProducerIds().add_block(block)


def test_a_block_may_hold_a_single_id():
    ids = ProducerIds()
    ids.add_block(ProducerIdBlock(0, 0))

    assert [ids.take(), ids.take()] == [0, None]


def test_ids_below_the_lowest_are_skipped() -> None:
    ids = ProducerIds()
    ids.add_block(ProducerIdBlock(0, 9))
    ids.add_block(ProducerIdBlock(100, 109))

    assert [ids.take(5), ids.take(10), ids.take(108), ids.take(), ids.take()] == [
        *(5, 100, 108, 109),
        None,
    ]


def test_a_block_is_claimed_above_the_lowest() -> None:
    store = MemoryStore()

    assert claim_block(store, BrokerId(1), 5_500).first == 5_500
    assert claim_block(store, BrokerId(1)).first == 6_500
