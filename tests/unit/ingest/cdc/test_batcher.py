"""Batches of whole transactions."""

from headrace.ingest.cdc.batcher import Batcher
from headrace.ingest.event import Event


def make(limit: int) -> Batcher[int]:
    return Batcher[int](limit, lambda position: {"position": str(position)})


def test_a_batch_is_full_at_four_mebibytes() -> None:
    batcher = make(1000)
    for number in range(6):
        batcher.add([Event({}, bytes(1 << 20))], number)
    batcher.end(6)
    batcher.flush()
    assert [len(batch) for batch in batcher.ready] == [4, 2]


def test_notes_go_with_the_next_batch() -> None:
    batcher = make(10)
    batcher.note({"table": "x"})
    batcher.end(1)
    batcher.flush()
    batcher.flush()
    assert [batch.marks for batch in batcher.ready] == [{"table": "x", "position": "1"}]
