"""The data source of a Python spout, in Spark's own process for sources, over Spark's protocol.

PySpark's `python_streaming_source_runner` runs in a thread; this test is Spark's Java side.
"""

import json
import pickle
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.serializers import SpecialLengths, read_int, write_int, write_with_length
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import StructType

from headrace.flow.execution.failure import failure_of
from headrace.flow.plan.work import TaskContext
from headrace.flow.storm import PythonSpout
from headrace.flow.storm.python_spout import SpoutEmit


class Letters(PythonSpout):
    """Emits letters, and notes its calls in a file."""

    fields = "letter STRING"
    max_pending = 2

    def __init__(self, notes: Path, letters: str) -> None:
        self.notes, self.letters = notes, letters

    def open(self, context: TaskContext) -> None:
        self.waiting = list(self.letters)

    def next_tuple(self, emit: SpoutEmit) -> None:
        if self.waiting:
            letter = self.waiting.pop(0)
            if letter == "!":
                raise OSError("the queue is gone")
            emit((letter,), message_id=letter)

    def ack(self, message_id: str) -> None:
        self.note(f"ack {message_id}")

    def fail(self, message_id: str) -> None:
        self.note(f"fail {message_id}")

    def close(self) -> None:
        self.note("close")

    def note(self, text: str) -> None:
        with self.notes.open("a") as file:
            file.write(f"{text}\n")


def only_letters(batches: Any) -> Iterator[pa.RecordBatch]:
    """Stands for a plan's first stage."""
    for each in batches:
        yield each.select(["letter"])


class Sources:
    """Takes the place of `spark.dataSource` and `spark.readStream`."""

    def __init__(self) -> None:
        self.dataSource = self.readStream = self
        self.registered: Any = None

    def register(self, source: Any) -> None:
        self.registered = source

    def format(self, label: str) -> "Sources":
        assert self.registered.name() == label
        return self

    def load(self) -> "Sources":
        return self


class Spark:
    """Speaks Spark's protocol with the process of a source."""

    def __init__(self, spout: PythonSpout, *failed: str) -> None:
        sources = Sources()
        work = spout.as_work().bound(
            "plan", "letters", parallelism=2, settings={}, failed=tuple(failed)
        )
        work.staged(sources, only_letters, "letter STRING", label="a label", streaming=True)
        source = sources.registered(options={})
        near, far = socket.socketpair()
        self._near, self._file = near, near.makefile("rwb", 65536)
        far_file = far.makefile("rwb", 65536)
        self._thread = Thread(target=self._serve, args=(far, far_file))
        self._thread.start()
        self._text(f"{sys.version_info.major}.{sys.version_info.minor}")
        write_with_length(cloudpickle.dumps(source), self._file)  # type: ignore[no-untyped-call]
        assert source.schema() == "letter STRING"
        self._text(StructType().add("letter", "string").json())
        write_int(1_000, self._file)
        self._file.flush()
        assert read_int(self._file) == 0
        # The process that plans the read makes a reader of its own, and pickles it.
        self.reader = cloudpickle.loads(cloudpickle.dumps(source.streamReader(StructType())))

    @staticmethod
    def _serve(far: socket.socket, file: Any) -> None:
        with far, suppress(SystemExit, OSError):
            runner.main(file, file)
            file.close()

    def _text(self, text: str) -> None:
        write_with_length(text.encode(), self._file)

    def _ask(self, function: int, *arguments: Any) -> None:
        write_int(function, self._file)
        for each in arguments:
            self._text(json.dumps(each))
        self._file.flush()

    def _answer(self) -> Any:
        length = read_int(self._file)
        if length == SpecialLengths.PYTHON_EXCEPTION_THROWN:
            raise RuntimeError(self._file.read(read_int(self._file)).decode())
        return json.loads(self._file.read(length))

    def features(self) -> int:
        self._ask(runner.CHECK_SUPPORTED_FEATURES_ID)
        return int(read_int(self._file))

    def begin(self) -> Any:
        self._ask(runner.INITIAL_OFFSET_FUNC_ID)
        return self._answer()

    def latest(self, start: Any) -> Any:
        self._ask(runner.GET_DEFAULT_READ_LIMIT_FUNC_ID)
        limit = self._answer()
        self._ask(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, start, limit)
        return self._answer()

    def read(self, start: Any, end: Any) -> list[str]:
        self._ask(runner.PARTITIONS_FUNC_ID, start, end)
        parts = [self._file.read(read_int(self._file)) for _ in range(read_int(self._file))]
        assert read_int(self._file) == runner.PREFETCHED_RECORDS_NOT_FOUND
        return [
            row["letter"]
            for part in parts
            for batch in self.reader.read(pickle.loads(part))
            for row in batch.to_pylist()
        ]

    def close(self) -> None:
        """Close the connection, as Spark does when a query ends."""
        self._near.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self._near.close()
        self._thread.join(90)


@pytest.fixture
def open_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    # Files that were added to a Spark session: there is none.
    monkeypatch.setattr(runner, "setup_spark_files", lambda infile: None)
    with ExitStack() as stack:
        yield stack


def test_spark_gets_batches_and_the_spout_its_acks(open_sources: ExitStack, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    spark = Spark(Letters(notes, "abc"), "x")
    open_sources.callback(spark.close)
    assert spark.features() == (
        runner.SUPPORTS_ADMISSION_CONTROL | runner.SUPPORTS_TRIGGER_AVAILABLE_NOW
    )
    start = spark.begin()
    first = spark.latest(start)
    assert spark.read(start, first) == ["a", "b"]
    second = spark.latest(first)
    assert spark.read(first, second) == ["c"]
    assert spark.latest(second) == second
    assert spark.read(second, second) == []
    open_sources.close()
    assert notes.read_text().split("\n") == ["fail x", "ack a", "ack b", "ack c", "close", ""]

    # Another process, which begins where the checkpoint says.
    again = Spark(Letters(notes, ""))
    open_sources.callback(again.close)
    assert again.latest(second) == second
    open_sources.close()
    assert notes.read_text().split("\n")[5:] == ["ack c", "close", ""]


def test_what_a_spout_raises_is_one_sentence_with_its_line(
    open_sources: ExitStack, tmp_path: Path
) -> None:
    spark = Spark(Letters(tmp_path / "notes", "!"))
    open_sources.callback(spark.close)
    with pytest.raises(RuntimeError) as raised:
        spark.latest(spark.begin())
    failure = failure_of(raised.value)
    assert (failure.component, failure.why) == ("letters", "OSError: the queue is gone")
    assert any("next_tuple" in line for line in failure.lines)
