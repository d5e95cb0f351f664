"""The file_roll sink: whole batches in files of lines or of Avro events."""

import errno
import io
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.sink import Sink
from testkit.sample.ingest_agent import avro_events, file_contents, make, run_sink

EVENTS = [Event({"host": "web1"}, b"one"), Event({"host": "web2"}, b"t\xffo")]


def test_file_roll_writes_lines(tmp_path: Path) -> None:
    run_sink(
        "file_roll",
        {"sink.directory": str(tmp_path)},
        EventBatch.of(EVENTS),
        EventBatch.plain([b"three"]),
    )
    assert list(file_contents(tmp_path).values()) == [b"one\nt\xffo\nthree\n"]


def test_file_roll_starts_a_new_file_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    sink = make("sink", "file_roll", {"sink.directory": str(tmp_path), "sink.rollInterval": "30"})
    assert isinstance(sink, Sink)
    sink.start()
    sink.deliver(EventBatch.plain([b"1"]))
    now[0] += 31
    sink.deliver(EventBatch.plain([b"2"]))
    sink.stop()
    assert sorted(file_contents(tmp_path).values()) == [b"1\n", b"2\n"]


def test_a_batch_that_the_disk_refused_leaves_no_half(tmp_path: Path) -> None:
    sink = make("sink", "file_roll", {"sink.directory": str(tmp_path)})
    assert isinstance(sink, Sink)
    sink.start()
    sink.deliver(EventBatch.plain([b"safe"]))

    class Full(io.FileIO):
        def write(self, data: object) -> int:
            super().write(bytes(data)[:3])  # type: ignore[call-overload]
            raise OSError(errno.ENOSPC, "No space left on device")

    (path,) = tmp_path.iterdir()
    sink._file.close()  # type: ignore[attr-defined]
    sink._file = Full(str(path), "a")  # type: ignore[attr-defined]
    with pytest.raises(DeliveryFailed, match="No space left"):
        sink.deliver(EventBatch.plain([b"refused"]))
    sink.deliver(EventBatch.plain([b"refused"]))
    sink.stop()
    assert sorted(file_contents(tmp_path).values()) == [b"refused\n", b"safe\n"]


@pytest.mark.parametrize("serializer", ["text", "avro_event"])
def test_a_full_disk_that_takes_part_of_a_write_gets_no_acknowledgement(
    tmp_path: Path, serializer: str
) -> None:
    """The kernel takes what fits and says how much that was; only the next write fails."""
    texts = {"sink.directory": str(tmp_path), "sink.serializer": serializer}
    sink = make("sink", "file_roll", texts)
    assert isinstance(sink, Sink)
    sink.start()
    sink.deliver(EventBatch.plain([b"safe"]))
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    batch = EventBatch.plain([b"%04d" % number for number in range(100)])
    with largest_file(len(before) + 50), pytest.raises(DeliveryFailed, match="File too large"):
        sink.deliver(batch)
    assert path.read_bytes() == before
    with largest_file(5):  # not even Avro's head fits
        for _ in range(2):
            with pytest.raises(DeliveryFailed, match="File too large"):
                sink.deliver(batch)
    assert {file.stat().st_size for file in tmp_path.iterdir() if file != path} == {0}
    sink.deliver(batch)
    sink.stop()
    whole = [data for data in file_contents(tmp_path).values() if data not in (b"", before)]
    if serializer == "text":
        assert whole == [b"".join(b"%04d\n" % number for number in range(100))]
    else:
        assert [each.body for each in avro_events(whole[0])] == batch.bodies


@contextmanager
def largest_file(size_bytes: int) -> Iterator[None]:
    """Limit the size of this process's files: the nearest thing to a full disk that needs no root.
    Python ignores the signal SIGXFSZ, so that a write at the limit fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_headers_can_be_written_too(tmp_path: Path) -> None:
    texts = {"sink.directory": str(tmp_path), "sink.serializer": "HEADER_AND_TEXT"}
    run_sink("file_roll", texts, EventBatch.of(EVENTS[:1]))
    assert list(file_contents(tmp_path).values()) == [b"{host=web1} one\n"]


def test_avro_files_hold_whole_events(tmp_path: Path) -> None:
    texts = {"sink.directory": str(tmp_path), "sink.serializer": "avro_event"}
    run_sink("file_roll", texts, EventBatch.of(EVENTS), EventBatch.of(EVENTS))
    (data,) = file_contents(tmp_path).values()
    assert avro_events(data) == EVENTS * 2
