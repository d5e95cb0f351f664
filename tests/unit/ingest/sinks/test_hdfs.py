"""The hdfs sink: buckets, rolling, formats, and what a crash leaves."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.sink import Sink
from headrace.model.error import ConfigError
from testkit.sample.ingest_agent import avro_events, file_contents, make, run_sink

EVENTS = [Event({"host": "web1"}, b"one"), Event({"host": "web2"}, b"t\xffo")]


def hdfs(folder: Path, **texts: str) -> dict[str, str]:
    return {
        "hdfs.path": str(folder),
        "hdfs.fileType": "DataStream",
        **{key.replace("_", "."): value for key, value in texts.items()},
    }


def test_hdfs_rolls_by_count_and_renames_what_is_done(tmp_path: Path) -> None:
    batches = [EventBatch.plain([b"%d" % n]) for n in range(3)]
    sink = make("sink", "hdfs", hdfs(tmp_path, hdfs_rollCount="2"))
    assert isinstance(sink, Sink)
    for batch in batches:
        sink.deliver(batch)
    done = [name for name in file_contents(tmp_path) if not name.endswith(".tmp")]
    open_files = [name for name in file_contents(tmp_path) if name.endswith(".tmp")]
    assert [file_contents(tmp_path)[name] for name in done] == [b"0\n1\n"]
    assert [file_contents(tmp_path)[name] for name in open_files] == [b"2\n"]
    sink.stop()
    assert sorted(file_contents(tmp_path).values()) == [b"0\n1\n", b"2\n"]
    assert all(name.startswith("FlumeData.") for name in file_contents(tmp_path))


def test_hdfs_leaves_the_in_use_name_of_a_file_after_a_crash_as_flume_does(tmp_path: Path) -> None:
    sink = make("sink", "hdfs", hdfs(tmp_path))
    assert isinstance(sink, Sink)
    sink.deliver(EventBatch.plain([b"left the channel"]))
    run_sink("hdfs", hdfs(tmp_path), EventBatch.plain([b"next life"]))
    found = {name.endswith(".tmp"): data for name, data in file_contents(tmp_path).items()}
    assert found == {True: b"left the channel\n", False: b"next life\n"}


def test_hdfs_with_a_recovery_file_finishes_its_own_files_after_a_crash(tmp_path: Path) -> None:
    data, notes = tmp_path / "data", tmp_path / "notes.json"
    texts = hdfs(data, hdfs_recoveryFile=str(notes))
    dead, other = make("sink", "hdfs", texts), make("sink", "hdfs", hdfs(data))
    for sink, body in ((dead, b"ours"), (other, b"of another agent, still open")):
        assert isinstance(sink, Sink)
        sink.start()
        sink.deliver(EventBatch.plain([body]))
    run_sink("hdfs", texts, EventBatch.plain([b"next life"]))
    found = file_contents(data)
    assert sorted(found.values()) == [b"next life\n", b"of another agent, still open\n", b"ours\n"]
    assert [data for name, data in found.items() if name.endswith(".tmp")] == [
        b"of another agent, still open\n"
    ]
    assert notes.read_text() == "[]"


@pytest.mark.parametrize("notes", ["", "{}", "[[1]]", '[["/nowhere", "a.tmp", "a"]]'])
def test_hdfs_starts_with_a_recovery_file_that_is_broken_or_names_what_is_gone(
    tmp_path: Path, notes: str
) -> None:
    (tmp_path / "notes.json").write_text(notes)
    texts = hdfs(tmp_path / "data", hdfs_recoveryFile=str(tmp_path / "notes.json"))
    run_sink("hdfs", texts, EventBatch.plain([b"body"]))
    assert list(file_contents(tmp_path / "data").values()) == [b"body\n"]


def test_an_unknown_file_system_is_a_failed_delivery() -> None:
    with pytest.raises(DeliveryFailed, match="nosuch://x/y"):
        run_sink("hdfs", {"hdfs.path": "nosuch://x/y"}, EventBatch.plain([b"body"]))


def test_hdfs_buckets_by_header_and_time(tmp_path: Path) -> None:
    batch = EventBatch(
        [b"a", b"b", b"c"],
        [
            {"host": "web1", "timestamp": "1350586077000"},
            {"host": "web2", "timestamp": "1350586077000"},
            {"host": "web1", "timestamp": "1350672477000"},
        ],
    )
    texts = hdfs(tmp_path, hdfs_timeZone="UTC")
    run_sink("hdfs", {**texts, "hdfs.path": f"{tmp_path}/%{{host}}/%Y-%m-%d"}, batch)
    found = {path.rpartition("/")[0]: data for path, data in file_contents(tmp_path).items()}
    assert found == {
        "web1/2012-10-18": b"a\n",
        "web2/2012-10-18": b"b\n",
        "web1/2012-10-19": b"c\n",
    }


def test_hdfs_writes_parquet_that_is_whole_after_every_batch(tmp_path: Path) -> None:
    sink = make("sink", "hdfs", hdfs(tmp_path, hdfs_fileType="Parquet"))
    assert isinstance(sink, Sink)
    sink.deliver(EventBatch.of(EVENTS))
    (path,) = tmp_path.iterdir()
    table = pyarrow.parquet.read_table(path)
    assert table.to_pydict() == {
        "headers": [[("host", "web1")], [("host", "web2")]],
        "body": [b"one", b"t\xffo"],
    }
    sink.stop()


def read_gzip(data: bytes) -> bytes:
    return gzip.decompress(data)


@pytest.mark.parametrize(("codec", "read"), [("gzip", read_gzip)])
def test_hdfs_compresses(tmp_path: Path, codec: str, read: Callable[[bytes], bytes]) -> None:
    run_sink(
        "hdfs",
        hdfs(tmp_path, hdfs_fileType="CompressedStream", hdfs_codeC=codec),
        EventBatch.of(EVENTS),
    )
    ((name, data),) = file_contents(tmp_path).items()
    assert (name.endswith(".gz"), read(data)) == (True, b"one\nt\xffo\n")


def test_hdfs_writes_sequence_files_by_default(tmp_path: Path) -> None:
    texts = {"hdfs.path": f"file://{tmp_path}"}
    run_sink("hdfs", texts, EventBatch.plain([b"body"], {"timestamp": "5"}))
    (data,) = file_contents(tmp_path).values()
    assert data.startswith(b"SEQ\x06\x21org.apache.hadoop.io.LongWritable")
    record = bytes([0, 0, 0, 16, 0, 0, 0, 8]) + (5).to_bytes(8, "big") + b"\0\0\0\x04body"
    assert data.endswith(record)


def test_hdfs_with_avro_events(tmp_path: Path) -> None:
    run_sink("hdfs", hdfs(tmp_path, serializer="avro_event"), EventBatch.of(EVENTS))
    (data,) = file_contents(tmp_path).values()
    assert avro_events(data) == EVENTS


def test_a_directory_that_cannot_be_is_a_failed_delivery(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DeliveryFailed, match="cannot write to"):
        run_sink("hdfs", hdfs(tmp_path / "file"), EventBatch.plain([b"x"]))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"hdfs.fileType": "Sequence"}, "hdfs.fileType cannot be 'Sequence'"),
        ({"hdfs.fileType": "CompressedStream"}, "write gzip, bzip2, lz4 or zstd"),
        ({"hdfs.timeZone": "Mars"}, "there is no time zone 'Mars'"),
        ({"hdfs.fileType": "DataStream", "serializer": "xml"}, "there is no serializer 'xml'"),
    ],
)
def test_settings_that_cannot_be_meant(texts: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make("sink", "hdfs", {"hdfs.path": "/x", **texts})
