"""The singer source: the records of any Singer tap."""

import json
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from headrace.ingest.error import IngestError, ProtocolError
from headrace.ingest.event import EventBatch, Headers
from headrace.ingest.file.replaced_file import replace_file
from headrace.ingest.format.json_value import key_text
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.singer.message import (
    RecordMessage,
    SchemaMessage,
    StateMessage,
    parse_message,
)
from headrace.ingest.singer.program import PROGRAM_SETTINGS, Program, command_of
from headrace.ingest.source import ReplayableSource
from headrace.ingest.sources.bookmark import Bookmark

_log = structlog.get_logger(__name__)
SCHEMA_HEADER = "singer.schema"
_LINGER_SECONDS = 0.1


class TapPosition(NamedTuple):
    """A place in the output of a tap: a state, and the records after it.

    Attributes:
        records: how many records after the state are delivered.
        digest: of these records; a tap that repeats them is continued behind them.
    """

    state: Any = None
    records: int = 0
    digest: str = ""

    def after(self, record: bytes) -> "TapPosition":
        digest = blake2b(self.digest.encode() + record, digest_size=16).hexdigest()
        return self._replace(records=self.records + 1, digest=digest)


class SingerSource(ReplayableSource):
    """Runs a tap again and again; each of its records is an event with the record as JSON.

    Headers: `stream`; `key`, the values of the key properties; `time_extracted` and `version` if
    the record has them; `topic` with `topicPrefix`; `singer.schema` with `schemaHeader`.

    Rule 1: the position is the tap's last STATE and the number of records after it. The tap is
        started with that state (`--state FILE`). If it begins with the same records as before,
        these are skipped, and no event is repeated; a digest tells. If it does not, it is started
        again and all records after the state come again, which is logged.
    Rule 2: the position moves when the events before it are in the channel; with `exactlyOnce` it
        is committed with them.
    Rule 3: a run that ends with exit code 0 is complete. The next one begins `runInterval` later at
        the last state, and skips nothing: a tap without states delivers everything in every run.
    Rule 4: a tap that fails, hangs or writes what is no message is ended and started again at the
        position, with growing pauses. While a channel is full the tap waits on its pipe.
    """

    SETTINGS = (
        *PROGRAM_SETTINGS,
        text("catalog", "Its catalog: --catalog FILE."),
        text("properties", "The catalog of an older tap: --properties FILE."),
        number("runInterval", "Milliseconds between two runs.", 60_000),
        text("topicPrefix", "Sets the header topic to this and the stream."),
        flag("schemaHeader", "Set the header singer.schema, for a singer sink.", False),
        flag("skipBadLines", "Log lines that are no message, and go on.", False),
        number("batchSize", "Most events in one transaction.", 100, minimum=1),
        text("positionFile", "Where the state is stored; a file per source by default."),
        flag("exactlyOnce", "Store the state with the events (see docs/agent.md).", False),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        arguments = []
        for key in ("catalog", "properties"):
            if (path := settings.optional(key)) is not None:
                arguments += [f"--{key}", path]
        self._command = command_of(settings, *arguments)
        self._interval_seconds = settings.number("runInterval") / 1000
        self._batch = settings.number("batchSize")
        self._prefix = settings.optional("topicPrefix")
        self._schema_header = settings.flag("schemaHeader")
        self._skip_bad = settings.flag("skipBadLines")
        self._bookmark = Bookmark(
            self, _place(self._command[0], settings), settings.optional("positionFile")
        )
        self._tap: Program | None = None
        self._next_run_at = float("-inf")
        self._schemas: dict[str, SchemaMessage] = {}
        self._read = TapPosition()
        self._skip = TapPosition()
        self._distrusted = False
        self._forget_output()

    def _forget_output(self) -> None:
        self._bodies: list[bytes] = []
        self._headers: list[Headers] = []
        # The position after each of the events that wait.
        self._positions: list[TapPosition] = []
        self._moved = False

    def start(self) -> None:
        self._bookmark.load()
        self._next_run_at = float("-inf")
        self._distrusted = False

    def stop(self) -> None:
        self._end_tap()

    def _end_tap(self) -> None:
        tap, self._tap = self._tap, None
        if tap is not None:
            tap.stop()
        self._forget_output()

    def poll(self) -> bool:
        if self._bookmark.settle():
            # The batch that failed was committed: go on behind it.
            self._end_tap()
        if self._tap is None:
            if time.monotonic() < self._next_run_at:
                return False
            self._begin_run()
        try:
            self._step()
        except (ProtocolError, OSError) as error:
            assert self._tap is not None
            why = self._tap.why()
            self.counters.add("EventReadFail")
            self._end_tap()
            raise IngestError(f"{error}{why}") from None
        return True

    # -- one run -------------------------------------------------------------------------------

    def _begin_run(self) -> None:
        self._schemas.clear()
        self._forget_output()
        stored = TapPosition(*(self._bookmark.value or ()))
        command = list(self._command)
        if stored.state is not None:
            # The whole name is part of it: no two sources share the file, nor is it the position.
            position = self._bookmark.path
            path = position.with_name(position.name + ".tap-state")
            replace_file(path, json.dumps(stored.state), private=True)
            command += ["--state", str(path)]
        self._read = TapPosition(stored.state)
        self._skip = TapPosition() if self._distrusted else stored
        self._tap = Program(command, self.settings, feeds=False)
        _log.info("tap_started", source=self.name, tap=self._tap.name, skips=self._skip.records)

    def _step(self) -> None:
        """Read what there is, and deliver when a batch is full or the tap pauses or ends."""
        tap = self._tap
        assert tap is not None
        if len(self._bodies) < self._batch:
            lines = tap.read_lines(_LINGER_SECONDS)
            for line in lines:
                self._take_line(line)
            if lines and len(self._bodies) < self._batch and not tap.ended:
                return
        while self._bodies:
            self._deliver_some()
        if tap.ended:
            self._end_run(tap)
        elif self._moved:
            self._bookmark.deliver(EventBatch([], []), list(self._read))
            self._moved = False

    def _take_line(self, line: bytes) -> None:
        try:
            message = parse_message(line)
        except ProtocolError as error:
            if not self._skip_bad:
                raise
            self.counters.add("EventReadFail")
            _log.warning("bad_line_skipped", source=self.name, reason=str(error))
            return
        match message:
            case SchemaMessage():
                self._schemas[message.stream] = message
            case StateMessage():
                self._take_state(message.value)
            case RecordMessage():
                self._take_record(message)

    def _take_state(self, state: Any) -> None:
        if state == self._read.state:
            return  # a tap that is started with it repeats all records since it came first
        if self._read.records < self._skip.records:
            # A state among the records to skip: the tap does not repeat what it wrote.
            self._distrust()
        self._read = TapPosition(state)
        self._skip = TapPosition()
        if self._positions:
            self._positions[-1] = self._read
        else:
            self._moved = True

    def _take_record(self, message: RecordMessage) -> None:
        body = json.dumps(message.record, ensure_ascii=False).encode("utf-8", "backslashreplace")
        self._read = self._read.after(message.stream.encode() + b"\0" + body)
        if self._read.records <= self._skip.records:
            if self._read.records == self._skip.records and self._read.digest != self._skip.digest:
                self._distrust()
            return
        self._bodies.append(body)
        self._headers.append(self._headers_of(message))
        self._positions.append(self._read)

    def _distrust(self) -> None:
        """Start the tap again without skipping records, because they are not the same."""
        self._distrusted = True
        raise ProtocolError(
            f"the tap did not repeat the {self._skip.records} records after its last state: all "
            "records after that state come again"
        )

    def _headers_of(self, message: RecordMessage) -> Headers:
        headers = {"stream": message.stream}
        schema = self._schemas.get(message.stream)
        if schema is not None and schema.key_properties:
            key = key_text(message.record, list(schema.key_properties))
            if key is not None:
                headers["key"] = key
        if schema is not None and self._schema_header:
            headers[SCHEMA_HEADER] = schema.text
        if message.time_extracted is not None:
            headers["time_extracted"] = message.time_extracted
        if message.version is not None:
            headers["version"] = str(message.version)
        if self._prefix is not None:
            headers["topic"] = self._prefix + message.stream
        return headers

    def _deliver_some(self) -> None:
        count = min(self._batch, len(self._bodies))
        batch = EventBatch(self._bodies[:count], self._headers[:count])
        self._bookmark.deliver(batch, list(self._positions[count - 1]))
        del self._bodies[:count], self._headers[:count], self._positions[:count]
        self._distrusted = False
        self._moved = False

    def _end_run(self, tap: Program) -> None:
        code = tap.wait()
        if code != 0:
            raise ProtocolError(f"{tap.name} ended with exit code {code}")
        if self._read.records < self._skip.records:
            self._distrust()
        # The next run begins at the state, with every record after it.
        complete = list(TapPosition(self._read.state))
        if complete != list(self._bookmark.value or TapPosition()):
            self._bookmark.deliver(EventBatch([], []), complete)
        self._end_tap()
        self._next_run_at = time.monotonic() + self._interval_seconds
        _log.info("tap_ended", source=self.name, tap=tap.name)


def _place(program: str, settings: Settings) -> str:
    """Return what a position is in: with another configuration or catalog it says nothing."""
    files = [settings.optional(key) for key in ("config", "catalog", "properties")]
    return " ".join(["singer", Path(program).name, *(each for each in files if each)])
