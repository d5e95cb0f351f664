"""TAILDIR: growing, rotated, cut, deleted and renamed files; positions over restarts."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.ingest.error import ChannelError
from headrace.ingest.sources.taildir import TaildirSource
from headrace.testing.readiness import wait_until
from testkit.sample.ingest_agent import RecordingProcessor, source_alone


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


class Tailing:
    """A source, asked until it has nothing more."""

    def __init__(self, source: TaildirSource, got: RecordingProcessor) -> None:
        self.source = source
        self.got = got

    def poll(self) -> list[bytes]:
        """What is new."""
        before = len(self.got.bodies)
        while self.source.poll():
            pass
        return self.got.bodies[before:]


@contextmanager
def tailing(logs: Path, **texts: str) -> Iterator[Tailing]:
    settings = {
        "filegroups": "f1",
        "filegroups.f1": f"{logs}/app.*log",
        "positionFile": str(logs.parent / "positions.json"),
        **{key.replace("__", "."): value for key, value in texts.items()},
    }
    with source_alone("TAILDIR", settings) as (source, got):
        assert isinstance(source, TaildirSource)
        yield Tailing(source, got)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_lines_come_once_as_the_file_grows(logs: Path) -> None:
    append(logs / "app.log", "1\n2\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"1", b"2"]
        append(logs / "app.log", "3\r\nhal")
        assert tail.poll() == [b"3"]
        append(logs / "app.log", "f\n")
        assert tail.poll() == [b"half"]


def test_a_rotated_file_is_read_to_its_end_and_nothing_twice(logs: Path) -> None:
    """The oldest complaint of Flume's users."""
    append(logs / "app.log", "1\n")
    with tailing(logs, filegroups__f1=f"{logs}/app.*") as tail:
        assert tail.poll() == [b"1"]
        append(logs / "app.log", "2\n")
        (logs / "app.log").rename(logs / "app.log.1")
        append(logs / "app.log", "3\n")
        assert sorted(tail.poll()) == [b"2", b"3"]
        (logs / "app.log.1").rename(logs / "app.log.2")
        (logs / "app.log").rename(logs / "app.log.1")
        assert tail.poll() == []


def test_a_file_rotated_to_a_name_that_does_not_match_is_read_to_its_end(logs: Path) -> None:
    append(logs / "app.log", "1\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"1"]
        (logs / "app.log").rename(logs / "old")
        append(logs / "old", "2\n")
        append(logs / "app.log", "3\n")
        assert sorted(tail.poll()) == [b"2", b"3"]


def test_a_file_rotated_while_the_agent_was_down_is_read_to_its_end(logs: Path) -> None:
    append(logs / "app.log", "1\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"1"]
    append(logs / "app.log", "2\n")
    (logs / "app.log").rename(logs / "old")
    append(logs / "app.log", "3\n")
    with tailing(logs) as tail:
        assert sorted(tail.poll()) == [b"2", b"3"]


def test_a_restart_goes_on_where_it_was(logs: Path) -> None:
    append(logs / "app.log", "1\n2\n")
    with tailing(logs) as tail:
        tail.poll()
    append(logs / "app.log", "3\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"3"]


def test_a_file_that_was_cut_is_read_from_its_start(logs: Path) -> None:
    append(logs / "app.log", "first line\n")
    with tailing(logs) as tail:
        tail.poll()
        (logs / "app.log").write_text("new\n")
        assert tail.poll() == [b"new"]


def test_a_file_that_was_cut_and_has_grown_past_the_position_is_read_from_its_start(
    logs: Path,
) -> None:
    append(logs / "app.log", "first\n")
    with tailing(logs) as tail:
        tail.poll()
        (logs / "app.log").write_text("another and longer\n")
        assert tail.poll() == [b"another and longer"]


def test_the_last_line_of_a_deleted_file_needs_no_end(logs: Path) -> None:
    append(logs / "app.log", "1\nno end")
    with tailing(logs, idleTimeout="0") as tail:
        assert tail.poll() == [b"1"]
        (logs / "app.log").unlink()
        found: list[bytes] = []
        wait_until(lambda: bool(found.extend(tail.poll()) or found), what="the last line")
        assert found == [b"no end"]


def test_a_full_channel_loses_and_doubles_nothing(logs: Path) -> None:
    append(logs / "app.log", "".join(f"{n}\n" for n in range(10)))
    with tailing(logs, batchSize="3") as tail:
        tail.got.refusals = 1
        with pytest.raises(ChannelError):
            tail.source.poll()
        assert tail.poll() == [b"%d" % n for n in range(10)]


def test_batches_are_no_larger_than_asked_for(logs: Path) -> None:
    append(logs / "app.log", "x\n" * 25)
    with tailing(logs, batchSize="10") as tail:
        tail.poll()
    assert [len(batch) for batch in tail.got.batches] == [10, 10, 5]


def test_headers_say_group_path_and_offset(logs: Path) -> None:
    append(logs / "app.log", "ab\ncd\n")
    texts = {"headers__f1__kind": "web", "fileHeader": "true", "byteOffsetHeader": "true"}
    with tailing(logs, **texts) as tail:
        tail.poll()
    path = str(logs / "app.log")
    assert [event.headers for event in tail.got.events] == [
        {"kind": "web", "file": path, "byteoffset": "0"},
        {"kind": "web", "file": path, "byteoffset": "3"},
    ]


def test_old_files_can_be_skipped(logs: Path) -> None:
    append(logs / "app.log", "old\n")
    with tailing(logs, skipToEnd="true") as tail:
        assert tail.poll() == []
        append(logs / "app.log", "new\n")
        assert tail.poll() == [b"new"]


def test_an_overlong_line_comes_in_pieces(logs: Path) -> None:
    append(logs / "app.log", "abcdefgh\nxy\n")
    with tailing(logs, maxLineLength="3") as tail:
        assert tail.poll() == [b"abc", b"def", b"gh", b"xy"]


def test_a_position_file_of_flume_s_is_understood(logs: Path) -> None:
    append(logs / "app.log", "1\n2\n")
    inode = (logs / "app.log").stat().st_ino
    row = {"inode": inode, "pos": 2, "file": str(logs / "app.log")}
    (logs.parent / "positions.json").write_text(json.dumps([row]))
    with tailing(logs) as tail:
        assert tail.poll() == [b"2"]


@pytest.mark.parametrize("content", ["", "{", "[5]", '[{"inode": "x"}]', '{"a": 1}'])
def test_a_broken_position_file_does_not_stop_it(logs: Path, content: str) -> None:
    append(logs / "app.log", "1\n")
    (logs.parent / "positions.json").write_text(content)
    with tailing(logs) as tail:
        assert tail.poll() == [b"1"]


def test_an_inode_that_was_given_to_another_file_is_noticed(logs: Path) -> None:
    append(logs / "app.log", "one\n")
    with tailing(logs) as tail:
        tail.poll()
    (logs / "app.log").write_text("two, longer\n")  # same inode, another beginning
    with tailing(logs) as tail:
        assert tail.poll() == [b"two, longer"]


SAME_START = "#Version: 1.0\n" + "#" * 300 + "\n"


def test_a_file_cut_while_the_agent_was_down_is_read_from_its_start_despite_its_header(
    logs: Path,
) -> None:
    """Every file of a web server begins with the same comment; only what follows tells them
    apart."""
    (logs / "app.log").write_text(SAME_START + "".join(f"old {n}\n" for n in range(50)))
    with tailing(logs) as tail:
        assert len(tail.poll()) == 52
    (logs / "app.log").write_text(SAME_START + "".join(f"new line {n}\n" for n in range(201)))
    with tailing(logs) as tail:
        assert len(tail.poll()) == 203


def test_a_file_rewritten_with_the_same_size_is_read_from_its_start(logs: Path) -> None:
    (logs / "app.log").write_text("old\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"old"]
        rewrite(logs / "app.log", "new\n")
        assert tail.poll() == [b"new"]
    rewrite(logs / "app.log", "sun\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"sun"]
        assert tail.poll() == []


def rewrite(path: Path, text: str) -> None:
    """Write a file again, in place, at another time: file systems keep times in steps of 4 ms."""
    before = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


def test_a_file_cut_while_it_is_read_is_noticed_between_two_reads(logs: Path) -> None:
    (logs / "app.log").write_text(SAME_START + "old\n" * 100_000)
    with tailing(logs) as tail:
        assert tail.source.poll()
        (logs / "app.log").write_text(SAME_START + "new\n" * 100_000)
        assert tail.poll().count(b"new") == 100_000


def test_the_checksum_before_the_position_survives_small_batches(logs: Path) -> None:
    (logs / "app.log").write_text(SAME_START + "".join(f"{n}\n" for n in range(20)))
    with tailing(logs, batchSize="3") as tail:
        assert len(tail.poll()) == 22
    append(logs / "app.log", "20\n")
    with tailing(logs, batchSize="3") as tail:
        assert tail.poll() == [b"20"]


def test_a_position_file_without_the_checksum_before_the_position_is_read(logs: Path) -> None:
    (logs / "app.log").write_text("1\n2\n")
    with tailing(logs) as tail:
        tail.poll()
    positions = logs.parent / "positions.json"
    rows = json.loads(positions.read_text())
    for row in rows:
        del row["tail"], row["tailBytes"]
    positions.write_text(json.dumps(rows))
    append(logs / "app.log", "3\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"3"]


def renumber(logs: Path, by: int = 1) -> None:
    """Change the device in the position file: what a reboot does to NFS, btrfs or overlay."""
    path = logs.parent / "positions.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([{**row, "device": row["device"] + by} for row in rows]))


def devices(logs: Path) -> list[int]:
    rows = json.loads((logs.parent / "positions.json").read_text())
    return [row["device"] for row in rows]


@pytest.mark.parametrize("renamed", [False, True])
def test_a_device_with_another_number_changes_nothing(logs: Path, renamed: bool) -> None:
    append(logs / "app.log", "1\n2\n")
    with tailing(logs) as tail:
        tail.poll()
    renumber(logs)
    append(logs / "app.log", "3\n")
    if renamed:
        (logs / "app.log").rename(logs / "old")
        append(logs / "app.log", "4\n")
    with tailing(logs) as tail:
        assert sorted(tail.poll()) == ([b"3", b"4"] if renamed else [b"3"])
    assert set(devices(logs)) == {logs.stat().st_dev}


def test_a_file_with_the_inode_of_one_on_another_device_is_new(logs: Path) -> None:
    append(logs / "app.log", "first\n")
    with tailing(logs) as tail:
        tail.poll()
    renumber(logs)
    (logs / "app.log").write_text("others\n")
    with tailing(logs) as tail:
        assert tail.poll() == [b"others"]


def test_a_device_that_is_mounted_again_while_the_agent_runs_changes_nothing(logs: Path) -> None:
    append(logs / "app.log", "1\n2\n")
    with tailing(logs, idleTimeout="0") as tail:
        tail.poll()
        ((key, file),) = tail.source._files.items()
        assert file.descriptor < 0
        file.device += 1
        tail.source._files = {(file.device, file.inode): file}
        append(logs / "app.log", "3\n")
        assert tail.poll() == [b"3"]
        assert list(tail.source._files) == [key]


def test_a_device_that_is_mounted_after_the_start_changes_nothing(logs: Path) -> None:
    append(logs / "app.log", "1\n2\n")
    with tailing(logs) as tail:
        tail.poll()
    renumber(logs)
    away = logs.rename(logs.parent / "away")
    logs.mkdir()
    with tailing(logs) as tail:
        assert tail.poll() == []
        logs.rmdir()
        away.rename(logs)
        append(logs / "app.log", "3\n")
        assert tail.poll() == [b"3"]


def test_of_the_marks_under_several_numbers_of_a_device_the_furthest_counts(logs: Path) -> None:
    class Marks:
        def __init__(self) -> None:
            self.all: dict[str, str] = {}

        def load(self) -> dict[str, str]:
            return self.all

        committed = load

    append(logs / "app.log", "1\n2\n")
    ledger = Marks()

    def lines() -> list[bytes]:
        with tailing(logs) as tail:
            tail.source.ledger = ledger
            tail.source.start()
            found = tail.poll()
            for batch in tail.got.batches:
                ledger.all.update(batch.marks or {})
            return found

    assert lines() == [b"1", b"2"]
    ((key, first),) = ledger.all.items()
    append(logs / "app.log", "3\n")
    assert lines() == [b"3"]
    # The last line was read under another number; now the device has its first one again.
    other = json.loads(ledger.all[key])
    other["device"] += 1
    ledger.all = {key: first, f"{other['device']}:{other['inode']}": json.dumps(other)}
    append(logs / "app.log", "4\n")
    assert lines() == [b"4"]
