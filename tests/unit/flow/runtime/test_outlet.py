"""What a stage passes on to Spark."""

from headrace.flow.runtime.outlet import CHUNK_BYTES, Outlet


def test_rows_leave_in_batches_of_bounded_size_and_in_order() -> None:
    outlet, chunk, count = Outlet(), bytes(CHUNK_BYTES), 20
    for slot in range(count):
        outlet.pass_on(slot, 0, chunk)

    slots, sizes = [], []
    for batch in outlet.ready():
        slots += batch.column("slot").to_pylist()
        sizes.append(batch.nbytes)

    assert slots == list(range(count))
    assert len(sizes) == 3
    assert max(sizes) < 2 * 64 * 1024 * 1024
    assert list(outlet.close()) == []
