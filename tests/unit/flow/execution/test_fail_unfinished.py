"""Checkpoints of plans with a Python spout, as Spark leaves them when its driver dies."""

import json
from pathlib import Path

import pytest

from headrace.flow.execution.fail_unfinished import fail_unfinished
from headrace.flow.execution.skip_unfinished import skip_unfinished
from headrace.flow.runtime.spout_offset import SpoutOffset
from headrace.flow.storage.file_store import LocalFileStore

METADATA = '{"batchWatermarkMs":0}'
TOPIC = ['{"lines":{"0":5}}', '{"lines":{"0":9}}', '{"lines":{"0":12}}']


def line(emitted: int, *ids: int) -> str:
    return json.dumps(SpoutOffset("words", emitted, ids).to_json())


SPOUT = [line(2, 0, 1), line(4, 2, 3), line(5, 4)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFileStore:
    """Return a checkpoint with three batches begun and two finished."""
    store = LocalFileStore(tmp_path)
    for batch in range(3):
        text = "\n".join(["v1", METADATA, TOPIC[batch], SPOUT[batch]])
        store.write(f"offsets/{batch}", text.encode())
    for batch in range(2):
        store.write(f"commits/{batch}", b"v1\n{}")
    return store


def offsets(store: LocalFileStore, batch: int) -> list[str]:
    return store.read(f"offsets/{batch}").decode().split("\n")


def test_the_part_of_the_spout_becomes_empty_and_its_ids_are_failed(
    checkpoint: LocalFileStore,
) -> None:
    assert fail_unfinished(checkpoint) == {"words": (4,)}
    assert offsets(checkpoint, 2) == ["v1", METADATA, TOPIC[2], SPOUT[1]]
    assert offsets(checkpoint, 1) == ["v1", METADATA, TOPIC[1], SPOUT[1]]
    assert fail_unfinished(checkpoint) == {}


def test_a_finished_batch_stays_as_it_is(checkpoint: LocalFileStore) -> None:
    checkpoint.write("commits/2", b"v1\n{}")
    assert fail_unfinished(checkpoint) == {}
    assert offsets(checkpoint, 2)[3] == SPOUT[2]


def test_the_first_batch_begins_again_with_nothing(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path)
    store.write("offsets/0", "\n".join(["v1", METADATA, SPOUT[0], TOPIC[0]]).encode())
    assert fail_unfinished(store) == {"words": (0, 1)}
    assert offsets(store, 0) == ["v1", METADATA, line(0), TOPIC[0]]


@pytest.mark.parametrize("stateful", [False, True])
def test_at_most_once_loses_the_batch_as_it_loses_that_of_a_topic(
    checkpoint: LocalFileStore, *, stateful: bool
) -> None:
    skip_unfinished(checkpoint, stateful=stateful)
    assert fail_unfinished(checkpoint) == {}
    assert offsets(checkpoint, 2)[3] == SPOUT[2]


def test_a_new_checkpoint_has_nothing_to_fail(tmp_path: Path) -> None:
    assert fail_unfinished(LocalFileStore(tmp_path / "none")) == {}
