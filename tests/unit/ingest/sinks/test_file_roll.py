"""The file_roll sink: whole batches in files of lines or of Avro events."""

import errno
import io
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


def test_headers_can_be_written_too(tmp_path: Path) -> None:
    texts = {"sink.directory": str(tmp_path), "sink.serializer": "HEADER_AND_TEXT"}
    run_sink("file_roll", texts, EventBatch.of(EVENTS[:1]))
    assert list(file_contents(tmp_path).values()) == [b"{host=web1} one\n"]


def test_avro_files_hold_whole_events(tmp_path: Path) -> None:
    texts = {"sink.directory": str(tmp_path), "sink.serializer": "avro_event"}
    run_sink("file_roll", texts, EventBatch.of(EVENTS), EventBatch.of(EVENTS))
    (data,) = file_contents(tmp_path).values()
    assert avro_events(data) == EVENTS * 2
