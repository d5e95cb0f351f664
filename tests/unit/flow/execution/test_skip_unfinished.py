"""Checkpoints as Spark leaves them when its driver dies in the middle of a batch."""

from pathlib import Path

import pytest

from headrace.flow.execution.skip_unfinished import record_not_run, skip_unfinished
from headrace.flow.storage.file_store import LocalFileStore


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return a checkpoint with three batches begun and two finished."""
    for folder, count in (("offsets", 3), ("commits", 2)):
        (tmp_path / folder).mkdir()
        for batch in range(count):
            (tmp_path / folder / str(batch)).write_text(f"v1\n{folder} {batch}")
            (tmp_path / folder / f".{batch}.crc").write_bytes(b"sum")
    return tmp_path


def test_without_state_the_batch_counts_as_done(checkpoint: Path) -> None:
    skip_unfinished(LocalFileStore(checkpoint), stateful=False)

    assert (checkpoint / "commits" / "2").read_text().startswith("v1\n{")
    assert (checkpoint / "offsets" / "1").read_text() == "v1\noffsets 1"


def test_with_state_the_batch_is_repeated_over_no_records(checkpoint: Path) -> None:
    skip_unfinished(LocalFileStore(checkpoint), stateful=True)

    assert not (checkpoint / "commits" / "2").exists()
    assert (checkpoint / "offsets" / "1").read_text() == "v1\noffsets 2"
    assert not (checkpoint / "offsets" / ".1.crc").exists()


def test_finished_batches_do_not_change(checkpoint: Path) -> None:
    (checkpoint / "commits" / "2").write_text("v1\ncommits 2")

    skip_unfinished(LocalFileStore(checkpoint), stateful=True)

    assert (checkpoint / "offsets" / "1").read_text() == "v1\noffsets 1"
    assert (checkpoint / "commits" / "2").read_text() == "v1\ncommits 2"


def test_a_first_start_has_nothing_to_skip(tmp_path: Path) -> None:
    skip_unfinished(LocalFileStore(tmp_path / "none"), stateful=False)

    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("stateful", [False, True])
def test_a_batch_recorded_as_not_run_is_run_once(checkpoint: Path, stateful: bool) -> None:
    store = LocalFileStore(checkpoint)
    record_not_run(store, 2)
    skip_unfinished(store, stateful=stateful)

    assert not (checkpoint / "commits" / "2").exists()
    assert (checkpoint / "offsets" / "1").read_text() == "v1\noffsets 1"

    # It ran, and a crash interrupted it.
    skip_unfinished(store, stateful=False)
    assert (checkpoint / "commits" / "2").exists()


def test_another_batch_than_the_recorded_one_is_skipped(checkpoint: Path) -> None:
    store = LocalFileStore(checkpoint)
    record_not_run(store, 1)
    skip_unfinished(store, stateful=False)

    assert (checkpoint / "commits" / "2").exists()
