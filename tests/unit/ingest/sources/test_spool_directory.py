"""spooldir: each file once, marked when it is done, also over a crash in the middle."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fastavro
import pytest

from headrace.ingest.error import ChannelError
from headrace.ingest.sources.spool_directory import SpoolDirectorySource
from testkit.sample.ingest_agent import RecordingProcessor, source_alone


@contextmanager
def spooling(
    folder: Path, **texts: str
) -> Iterator[tuple[SpoolDirectorySource, RecordingProcessor]]:
    settings = {
        "spoolDir": str(folder),
        "pollDelay": "0",
        **{key.replace("__", "."): value for key, value in texts.items()},
    }
    with source_alone("spooldir", settings) as (source, got):
        assert isinstance(source, SpoolDirectorySource)
        yield source, got


def read_all(source: SpoolDirectorySource) -> None:
    while source.poll():
        pass


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_files_are_read_in_order_and_renamed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("3")
    with spooling(tmp_path) as (source, got):
        read_all(source)
    assert got.bodies == [b"1", b"2", b"3"]
    assert names(tmp_path) == ["a.COMPLETED", "b.COMPLETED"]


def test_files_can_be_deleted_or_remembered(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    with spooling(tmp_path, deletePolicy="immediate") as (source, _):
        read_all(source)
    assert names(tmp_path) == []
    (tmp_path / "b").write_text("2\n")
    for _ in range(2):
        with spooling(tmp_path, trackingPolicy="tracker_dir") as (source, got):
            read_all(source)
    assert names(tmp_path) == ["b"]
    assert got.bodies == []


def test_a_crash_in_the_middle_goes_on_behind_the_last_batch(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"{n}\n" for n in range(10)))
    with spooling(tmp_path, batchSize="3") as (source, got):
        source.poll()
        source.poll()
    assert len(got.bodies) == 6
    with spooling(tmp_path, batchSize="3") as (source, rest):
        read_all(source)
    assert got.bodies + rest.bodies == [b"%d" % n for n in range(10)]
    assert names(tmp_path) == ["a.COMPLETED"]


def test_a_file_that_vanishes_while_it_is_read_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"{n}\n" for n in range(5)))
    with spooling(tmp_path, batchSize="2") as (source, got):
        source.poll()
        (tmp_path / "a").unlink()
        (tmp_path / "b").write_text("next\n")
        read_all(source)
    assert got.bodies == [b"0", b"1", b"2", b"3", b"4", b"next"]
    assert names(tmp_path) == ["b.COMPLETED"]


def test_a_crash_between_the_last_batch_and_the_rename_repeats_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    with spooling(tmp_path) as (source, got):
        source.poll()
        source.poll()
    assert got.bodies == [b"1"]
    with spooling(tmp_path) as (source, rest):
        read_all(source)
    assert rest.bodies == []
    assert names(tmp_path) == ["a.COMPLETED"]


def test_a_full_channel_loses_and_doubles_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    with spooling(tmp_path, batchSize="2") as (source, got):
        source.poll()
        got.refusals = 1
        with pytest.raises(ChannelError):
            read_all(source)
        read_all(source)
    assert got.bodies == [b"1", b"2", b"3"]


def test_patterns_choose_and_headers_tell(tmp_path: Path) -> None:
    for name in ("a.log", "b.tmp", "c.txt"):
        (tmp_path / name).write_text("x\n")
    texts = {"includePattern": r".*\.(log|tmp)", "ignorePattern": r".*\.tmp"}
    with spooling(tmp_path, basenameHeader="true", fileHeader="true", **texts) as (source, got):
        read_all(source)
    assert [each.headers for each in got.events] == [
        {"basename": "a.log", "file": str(tmp_path / "a.log")}
    ]
    assert names(tmp_path) == ["a.log.COMPLETED", "b.tmp", "c.txt"]


def test_a_file_that_changes_while_it_is_read_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    with spooling(tmp_path) as (source, _):
        source.poll()
        with (tmp_path / "a").open("a") as file:
            file.write("2\n")
        read_all(source)
    assert names(tmp_path) == ["a.FAILED"]


def test_directories_below_are_read_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a").write_text("1\n")
    with spooling(tmp_path, recursiveDirectorySearch="true") as (source, got):
        read_all(source)
    assert got.bodies == [b"1"]


def test_a_whole_file_can_be_one_event(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00\n\x01")
    with spooling(
        tmp_path, deserializer="org.apache.flume.sink.solr.morphline.BlobDeserializer$Builder"
    ) as (source, got):
        read_all(source)
    assert got.bodies == [b"\x00\n\x01"]


def test_avro_files_give_a_body_for_each_record(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"n": n} for n in range(5)])
    with spooling(tmp_path, deserializer="AVRO", batchSize="2") as (source, got):
        source.poll()
        source.poll()
    with spooling(tmp_path, deserializer="AVRO", batchSize="2") as (source, rest):
        read_all(source)
    assert got.bodies + rest.bodies == [bytes([2 * n]) for n in range(5)]
    assert "flume.avro.schema.hash" in got.events[0].headers


def test_a_file_that_vanishes_while_its_end_is_not_yet_committed_stops_no_other(
    tmp_path: Path,
) -> None:
    class Silent:
        def load(self) -> dict[str, str]:
            return {}

        def committed(self) -> dict[str, str]:
            return {}

    (tmp_path / "a").write_text("1\n")
    with spooling(tmp_path) as (source, got):
        source.ledger = Silent()
        read_all(source)
        (tmp_path / "a").unlink()
        (tmp_path / "b").write_text("2\n")
        read_all(source)
    assert got.bodies == [b"1", b"2"]
