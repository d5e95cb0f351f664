"""The file with what a checkpoint began with."""

from pathlib import Path

import pytest

from headrace.flow.error import FlowError
from headrace.flow.samza.checkpoint_start import CheckpointStart
from headrace.flow.storage.file_store import LocalFileStore

BEGINNING = CheckpointStart({"counts": {0: 7, 1: 0}}, {"kafka.views": {0: 3}})


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    BEGINNING.write(LocalFileStore(tmp_path / "checkpoint"))
    assert CheckpointStart.read(LocalFileStore(tmp_path / "checkpoint")) == BEGINNING


def test_a_checkpoint_that_has_not_begun_has_none(tmp_path: Path) -> None:
    assert CheckpointStart.read(LocalFileStore(tmp_path)) is None


def test_a_torn_file_is_reported_and_not_ignored(tmp_path: Path) -> None:
    BEGINNING.write(LocalFileStore(tmp_path))
    (tmp_path / "samza.json").write_text('{"changelog_ends"')
    with pytest.raises(FlowError, match="cannot be read"):
        CheckpointStart.read(LocalFileStore(tmp_path))
