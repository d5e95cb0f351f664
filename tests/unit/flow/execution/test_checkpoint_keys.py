"""Which keys the slots of a checkpoint have, over starts and versions."""

from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.execution.checkpoint_keys import checkpoint_keys
from headrace.flow.plan.slot_key import KEYS_ARE_SLOTS, SlotKeys
from headrace.flow.storage.file_store import LocalFileStore


@pytest.fixture
def store(tmp_path: Path) -> LocalFileStore:
    return LocalFileStore(tmp_path / "checkpoint")


def test_a_flow_that_goes_on_keeps_its_keys_whatever_the_session_says(
    store: LocalFileStore,
) -> None:
    first = checkpoint_keys(store, slots=4, partitions=2)
    store.write("offsets/0", b"v1")

    assert first == SlotKeys.spread(4, 2)
    assert checkpoint_keys(store, slots=4, partitions=8) == first


def test_a_start_that_ended_before_its_first_batch_binds_nothing(store: LocalFileStore) -> None:
    checkpoint_keys(store, slots=4, partitions=2)

    assert checkpoint_keys(store, slots=4, partitions=3) == SlotKeys.spread(4, 3)
    store.write("offsets/0", b"v1")
    assert checkpoint_keys(store, slots=4, partitions=2) == SlotKeys.spread(4, 3)


def test_a_checkpoint_of_an_earlier_version_keeps_its_keys(store: LocalFileStore) -> None:
    store.write("offsets/7", b"v1")

    assert checkpoint_keys(store, slots=4, partitions=2) == KEYS_ARE_SLOTS
    assert not store.exists("slot-partitions")


@pytest.mark.parametrize("text", [b"", b"two", b"-2", b"0"])
def test_a_damaged_file_is_no_reason_to_begin_without_states(
    store: LocalFileStore, text: bytes
) -> None:
    store.write("offsets/0", b"v1")
    store.write("slot-partitions", text)

    with pytest.raises(FlowError, match="restore it from a copy"):
        checkpoint_keys(store, slots=4, partitions=2)
