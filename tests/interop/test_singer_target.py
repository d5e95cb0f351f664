"""The singer sink with a target from PyPI: MeltanoLabs' target-csv, built with the Singer SDK."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.sink import Sink
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.python_peer import find_packages
from testkit.sample.ingest_agent import make

pytestmark = pytest.mark.interop


def target(folder: Path, config: dict[str, Any], **texts: str) -> Sink:
    """Return a sink that feeds the target."""
    try:
        packages = find_packages("meltanolabs-target-csv")
    except PeerMissing as missing:
        require_peer(str(missing))
    path = folder / "target.json"
    path.write_text(json.dumps(config))
    settings = {
        "command": f"env PYTHONPATH={packages} {sys.executable} {packages}/bin/target-csv",
        "config": str(path),
        "flush": "end",
        **texts,
    }
    sink = make("sink", "singer", settings)
    assert isinstance(sink, Sink)
    sink.start()
    return sink


def batch(stream: str, *rows: dict[str, Any]) -> EventBatch:
    return EventBatch.of(Event({"stream": stream}, json.dumps(row).encode()) for row in rows)


def test_batches_are_rows_of_a_file_per_stream(tmp_path: Path) -> None:
    output = tmp_path / "out"
    # It begins a file at each of its starts, so with the time in their names none is replaced.
    config = {
        "output_path": str(output),
        "file_naming_scheme": "{stream_name}-{timestamp}.csv",
        "timestamp_format": "%Y%m%d%H%M%S%f",
    }
    sink = target(tmp_path, config, keyProperties="id")
    try:
        sink.deliver(batch("people", {"id": 1, "name": "Äda"}, {"id": 2, "name": 'B "b", c'}))
        mixed = [*batch("people", {"id": 3, "name": None}), *batch("towns", {"id": 7})]
        sink.deliver(EventBatch.of(mixed))
    finally:
        sink.stop()
    people = rows_of(output, "people")
    assert [(row["id"], row["name"]) for row in people] == [
        ("1", "Äda"),
        ("2", 'B "b", c'),
        ("3", ""),
    ]
    assert [row["id"] for row in rows_of(output, "towns")] == ["7"]


def rows_of(folder: Path, stream: str) -> list[dict[str, str]]:
    """Return the rows of all files of a stream, in the order of their times."""
    found = []
    for path in sorted(folder.glob(f"{stream}-*.csv")):
        with path.open(newline="") as file:
            found += list(csv.DictReader(file))
    return found


def test_a_target_that_fails_says_why_and_the_batch_is_not_confirmed(tmp_path: Path) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    sink = target(tmp_path, {"output_path": str(blocked)}, keyProperties="id")
    try:
        with pytest.raises(DeliveryFailed, match="a-file"):
            sink.deliver(batch("people", {"id": 1}))
    finally:
        sink.stop()
