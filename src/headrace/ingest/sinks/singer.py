"""The singer sink: events into any Singer target."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog

from headrace.ingest.error import DeliveryFailed, IngestError, ProtocolError
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.file.dead_letter_file import DeadLetter, DeadLetterFile
from headrace.ingest.settings import Settings, number, text
from headrace.ingest.singer.inferred_schema import InferredSchema
from headrace.ingest.singer.message import StateMessage, parse_message
from headrace.ingest.singer.program import PROGRAM_SETTINGS, Program, command_of
from headrace.ingest.sink import Sink

_log = structlog.get_logger(__name__)
_STATE_KEY = "headrace"
_SCHEMA_HEADER = "singer.schema"
_CHUNK_BYTES = 1 << 20
# Streams whose schema is kept: their names come with the events.
_STREAMS_KEPT = 1000


class SingerSink(Sink):
    """Feeds a target; a batch leaves the channel when the target has echoed the STATE after it.

    A body is a JSON object, a record of the stream in the header `stream`. Its schema is that of
    the header `singer.schema` (see the singer source), or of `schemaFile`, or the one that its
    fields show so far.

    Rule 1: after the records of a batch a STATE is sent. A target that echoes states while it runs
        is kept running. One that has not echoed it after `stateTimeout` gets the end of its input,
        must end with code 0 and the STATE, and is started again for the next batch: then
        make batches large. `flush = end` does so at once, `flush = state` never.
    Rule 2: a target that fails, hangs or writes no STATE is ended, and the batch stays in the
        channel. What it had written by then comes again: delivery is at least once.
    """

    SETTINGS = (
        *PROGRAM_SETTINGS,
        text("stream", "The stream of events without the header.", "events"),
        text("streamHeader", "The header with the stream.", "stream"),
        text("keyProperties", "The key of streams without a schema, separated by white space."),
        text("schemaFile", "A catalog, or a JSON object with a SCHEMA message per stream."),
        text("flush", "When a batch is confirmed.", "auto", choices=("auto", "state", "end")),
        number("stateTimeout", "Milliseconds to wait for the STATE of a running target.", 10_000),
        text("deadLetterFile", "Where events go that are no JSON object or have no schema."),
        number("batchSize", "Events per batch.", 100, minimum=1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._command = command_of(settings)
        self._flush = settings.text("flush")
        self._state_seconds = settings.number("stateTimeout") / 1000
        self._keys = settings.words("keyProperties")
        path = settings.optional("deadLetterFile")
        self._dead = None if path is None else DeadLetterFile(Path(path).expanduser())
        self._declared = _declared(settings)
        self._inferred: dict[str, InferredSchema] = {}
        self._target: Program | None = None
        self._sent: dict[str, str] = {}
        self._number = 0
        self._echoed = 0
        self._ends = self._flush == "end"

    def stop(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            target.stop()
            self.counters.add("ConnectionClosedCount")

    def deliver(self, batch: EventBatch) -> None:
        try:
            self._feed(batch)
            self._confirm()
        except (IngestError, OSError) as error:
            why = self._target.why() if self._target is not None else ""
            self._drop_target()
            self.counters.add("ConnectionFailedCount")
            raise DeliveryFailed(f"the target did not take events: {error}{why}") from None
        except Exception:
            # It may have had a part of the batch, which comes again.
            self._drop_target()
            raise

    def _drop_target(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            target.kill()
            self.counters.add("ConnectionClosedCount")

    def _feed(self, batch: EventBatch) -> None:
        if self._target is None:
            self._sent.clear()
            self._target = Program(self._command, self.settings, feeds=True)
            self.counters.add("ConnectionCreatedCount")
        self._number += 1
        chunk: list[bytes] = []
        size = 0
        # All of them first: the target gets nothing of a batch that cannot be sent.
        for line in list(self._lines(batch)):
            chunk.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                self._target.write(b"".join(chunk), self._take_line)
                chunk, size = [], 0
        state = {"type": "STATE", "value": {_STATE_KEY: self._number}}
        chunk.append(_line(state))
        self._target.write(b"".join(chunk), self._take_line)

    def _confirm(self) -> None:
        """Wait until the target has echoed the STATE of this batch."""
        assert self._target is not None
        target = self._target
        deadline = time.monotonic() + self._state_seconds
        closed = False
        while self._echoed < self._number:
            if self.stopping.is_set() and not closed:
                # One more chance before the agent ends: most targets echo at the end of the input.
                deadline = time.monotonic()
            if self._ends or (
                self._flush == "auto" and not closed and time.monotonic() >= deadline
            ):
                if not closed:
                    target.close_input()
                    closed = True
            elif not closed and time.monotonic() >= deadline:
                raise ProtocolError(f"{target.name} echoed no STATE in time (stateTimeout)")
            for line in target.read_lines():
                self._take_line(line)
            if target.ended:
                break
        if closed or target.ended:
            self._finish(target)

    def _finish(self, target: Program) -> None:
        """See a target end, which it does with code 0 after it has written everything."""
        while not target.ended:
            for line in target.read_lines():
                self._take_line(line)
        code = target.wait()
        if code != 0:
            raise ProtocolError(f"{target.name} ended with exit code {code}")
        if self._echoed < self._number:
            raise ProtocolError(f"{target.name} ended without echoing the last STATE")
        if not self._ends and self._flush == "auto":
            self._ends = True
            _log.info("target_echoes_at_its_end", sink=self.name, target=target.name)
        self._drop_target()

    def _take_line(self, line: bytes) -> None:
        """Take a line of the target's output: a STATE, as JSON alone or as a message."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise ProtocolError(f"a line of the target is no state: {line[:100]!r}") from None
        if isinstance(value, dict) and value.get("type") == "STATE":
            message = parse_message(line)
            value = message.value if isinstance(message, StateMessage) else None
        number = value.get(_STATE_KEY) if isinstance(value, dict) else None
        if isinstance(number, int) and number <= self._number:
            self._echoed = max(self._echoed, number)

    # -- messages ------------------------------------------------------------------------------

    def _lines(self, batch: EventBatch) -> Iterator[bytes]:
        """Yield the messages of a batch, each schema before the first record that needs it."""
        dead: list[DeadLetter] = []
        header = self.settings.text("streamHeader")
        message: dict[str, Any] | None
        for event in batch:
            try:
                record = json.loads(event.body)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                dead.append(DeadLetter(event, "the body is no JSON object"))
                continue
            stream = event.headers.get(header) or self.settings.text("stream")
            schema = self._schema_text(stream, record, event)
            if self._sent.get(stream) != schema:
                message = _schema_of(schema)
                if message is None:
                    dead.append(DeadLetter(event, f"the header {_SCHEMA_HEADER} is no SCHEMA"))
                    continue
                _make_room(self._sent)
                self._sent[stream] = schema
                yield _line({**message, "type": "SCHEMA", "stream": stream})
            message = {"type": "RECORD", "stream": stream, "record": record}
            for name, value in event.headers.items():
                if name == "time_extracted":
                    message[name] = value
                elif name == "version" and value.isascii() and value.isdigit():
                    message[name] = int(value[:18])
            yield _line(message)
        if dead:
            self._set_aside(dead)

    def _schema_text(self, stream: str, record: dict[str, Any], event: Event) -> str:
        written = event.headers.get(_SCHEMA_HEADER) or self._declared.get(stream)
        if written is not None:
            return written
        if stream not in self._inferred:
            _make_room(self._inferred)
            self._inferred[stream] = InferredSchema(self._keys)
        inferred = self._inferred[stream]
        inferred.add(record)
        return inferred.text

    def _set_aside(self, dead: list[DeadLetter]) -> None:
        if self._dead is None:
            raise IngestError(
                f"{len(dead)} events cannot be sent, of which the first: {dead[0].reason} (write "
                "deadLetterFile to go on without them)"
            )
        self._dead.append(dead)
        _log.warning("events_set_aside", sink=self.name, count=len(dead), reason=dead[0].reason)


def _schema_of(written: str) -> dict[str, Any] | None:
    """Return a SCHEMA message; None if it is none."""
    try:
        message = json.loads(written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("schema"), dict):
        return None
    return message


def _make_room(kept: dict[str, Any]) -> None:
    """Leave out the oldest entry if there are too many; a schema is sent again when needed."""
    if len(kept) >= _STREAMS_KEPT:
        del kept[next(iter(kept))]


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _declared(settings: Settings) -> dict[str, str]:
    """Return the SCHEMA message of each stream in `schemaFile`."""
    path = settings.optional("schemaFile")
    if path is None:
        return {}
    try:
        content = json.loads(Path(path).expanduser().read_text())
        if "streams" in content:
            return {
                each.get("stream") or each["tap_stream_id"]: json.dumps(
                    {
                        "schema": each["schema"],
                        "key_properties": each.get("key_properties") or [],
                    }
                )
                for each in content["streams"]
            }
        for each in content.values():
            if not isinstance(each["schema"], dict):
                raise TypeError("a schema is no object")
        return {
            stream: json.dumps({"key_properties": [], **each}) for stream, each in content.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise settings.wrong(
            "schemaFile",
            f"schemaFile {path} has no schemas ({error!r}): write a catalog, or "
            '{"STREAM": {"schema": {...}, "key_properties": [...]}}',
        ) from None
