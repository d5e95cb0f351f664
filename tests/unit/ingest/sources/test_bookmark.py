"""The position of a source in a file, and in a ledger whose answers get lost."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.ingest.error import ChannelError, IngestError
from headrace.ingest.event import EventBatch
from headrace.ingest.ledger import MarkCache
from headrace.ingest.settings import Settings
from headrace.ingest.source import ReplayableSource
from headrace.ingest.sources.bookmark import Bookmark


class OneBatch(ReplayableSource):
    """Commits batches to a ledger at once; `lose` is raised before or after that."""

    def __init__(self, ledger: "MemoryLedger | None") -> None:
        super().__init__("it", Settings.from_texts((), {}))
        self.ledger = ledger
        self.lose: str | None = None
        self.bodies: list[bytes] = []

    def poll(self) -> bool:
        return False

    def deliver(self, batch: EventBatch) -> None:
        if self.lose == "before":
            raise ChannelError("not committed")
        self.bodies += batch.bodies
        if self.ledger is not None:
            assert batch.marks is not None
            self.ledger.marks.update(batch.marks)
        if self.lose == "after":
            raise ChannelError("the answer was lost")


class MemoryLedger:
    """The marks of one transactional id."""

    def __init__(self) -> None:
        self.marks = MarkCache()

    def load(self) -> Mapping[str, str]:
        return self.marks.all()

    def committed(self) -> Mapping[str, str]:
        return self.marks.all()


def rows(*bodies: bytes) -> EventBatch:
    return EventBatch.plain(list(bodies))


@pytest.mark.parametrize(("lose", "moved"), [("before", False), ("after", True)])
def test_the_ledger_says_whether_a_lost_delivery_was_committed(lose: str, moved: bool) -> None:
    source = OneBatch(MemoryLedger())
    bookmark = Bookmark(source, "table", None)
    bookmark.load()
    bookmark.deliver(rows(b"1"), [1])
    source.lose = lose
    with pytest.raises(ChannelError):
        bookmark.deliver(rows(b"2"), [2])
    assert bookmark.value == [1]
    assert bookmark.settle() is moved
    assert bookmark.value == ([2] if moved else [1])
    assert bookmark.settle() is False


def test_a_position_that_waits_in_a_channel_is_not_taken_back() -> None:
    source = OneBatch(MemoryLedger())
    bookmark = Bookmark(source, "table", None)
    bookmark.load()
    bookmark.deliver(rows(b"1"), [1])
    assert isinstance(source.ledger, MemoryLedger)
    source.ledger.marks.replace({})  # as if the sink had committed nothing yet
    source.lose = "before"
    with pytest.raises(ChannelError):
        bookmark.deliver(rows(b"2"), [2])
    bookmark.settle()
    assert bookmark.value == [1]


def test_a_source_that_starts_again_begins_at_the_committed_position() -> None:
    """What it had delivered and the sink had not committed was dropped before."""
    source = OneBatch(MemoryLedger())
    bookmark = Bookmark(source, "table", None)
    bookmark.load()
    bookmark.deliver(rows(b"1"), [1])
    assert isinstance(source.ledger, MemoryLedger)
    committed = dict(source.ledger.marks.all())
    bookmark.deliver(rows(b"2"), [2])
    source.ledger.marks.replace(committed)
    bookmark.load()
    assert (bookmark.value, bookmark.number) == ([1], 1)


def test_a_file_has_the_position_of_the_last_run(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "position.json"
    first = Bookmark(OneBatch(None), "table", str(path))
    first.load()
    first.deliver(rows(b"1"), [1])
    first.deliver(rows(), [2])
    second = Bookmark(OneBatch(None), "table", str(path))
    second.load()
    assert (second.value, second.number) == ([2], 2)


def test_without_a_setting_every_source_has_a_file_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    source = OneBatch(None)
    source.agent = "a1"
    Bookmark(source, "table", None).deliver(rows(b"1"), [1])
    written = json.loads((tmp_path / ".headrace/agent/a1.it.position.json").read_text())
    assert written == {"key": "table", "number": 1, "value": [1]}


@pytest.mark.parametrize("content", ["", "[]", '{"key": 1}', '{"key": "table", "number": "1"}'])
def test_what_is_no_position_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "position.json"
    path.write_text(content)
    with pytest.raises(IngestError, match="holds no position"):
        Bookmark(OneBatch(None), "table", str(path)).load()


def test_a_file_that_cannot_be_written_is_found_before_any_delivery(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bookmark = Bookmark(OneBatch(None), "table", str(tmp_path / "file" / "position.json"))
    with pytest.raises(IngestError, match="positionFile"):
        bookmark.load()


def test_a_file_that_fails_later_repeats_no_batch(tmp_path: Path) -> None:
    folder = tmp_path / "positions"
    source = OneBatch(None)
    bookmark = Bookmark(source, "table", str(folder / "position.json"))
    bookmark.load()
    folder.rmdir()
    folder.write_text("in the way")
    bookmark.deliver(rows(b"1"), [1])
    assert bookmark.value == [1]
    with pytest.raises(IngestError, match="the position is not stored"):
        bookmark.deliver(rows(b"2"), [2])
    assert source.bodies == [b"1"]
    folder.unlink()
    bookmark.deliver(rows(b"2"), [2])
    assert source.bodies == [b"1", b"2"]
    again = Bookmark(OneBatch(None), "table", str(folder / "position.json"))
    again.load()
    assert again.value == [2]
