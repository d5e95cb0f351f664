"""The sql sink: JSON events as rows of a table, upserted by their key."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import structlog
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError, IntegrityError, StatementError

from headrace.ingest.error import DeliveryFailed, IngestError
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.file.dead_letter_file import DeadLetter, DeadLetterFile
from headrace.ingest.settings import Settings, flag, number, text
from headrace.ingest.sink import Sink
from headrace.ingest.sql.column_value import BadRow
from headrace.ingest.sql.database import DATABASE_SETTINGS, Database, table_name
from headrace.ingest.sql.table_writer import (
    UPSERTS,
    Change,
    TableWriter,
    create_table,
    not_deleted_later,
)

_log = structlog.get_logger(__name__)
_FAILED = "rows were not written"
# A violated CHECK of MySQL and of MariaDB, which the driver takes for an error of its operation.
_VIOLATED_CHECKS = (3819, 4025)
# Debezium's words for a large value that did not change and was not logged, as text, as bytes and
# as an array: its column keeps what it has.
_PLACEHOLDER = "__debezium_unavailable_value"
_UNAVAILABLE = (
    _PLACEHOLDER,
    base64.b64encode(_PLACEHOLDER.encode()).decode(),
    [_PLACEHOLDER],
)
_NO_ROW = "the update lacks values that were not logged, and the table has no row to keep them"


class _Parsed(NamedTuple):
    """What an event says about a row.

    Attributes:
        update: the row was there before.
        unlogged: the columns whose values the database did not log.
    """

    event: Event
    fields: dict[str, Any]
    delete: bool = False
    update: bool = False
    unlogged: tuple[str, ...] = ()


class SqlSink(Sink):
    """Writes a batch in one transaction of the database: all of its rows or none.

    A body is a JSON object whose fields are columns. With `mode = upsert` a row replaces the one of
    its key, so a batch that comes again after a lost commit changes nothing. With `delete` an
    event without a body, as a tombstone of a topic, deletes the row of its header `key`. With
    `format = debezium` a body is Debezium's envelope: `after` is written, and `op` d deletes the
    row that the key names.

    A row that the table can never take goes to `deadLetterFile` with the reason. Without that file
    it stays in the channel, and everything after it.
    """

    SETTINGS = (
        *DATABASE_SETTINGS,
        text("table", "The table, or SCHEMA.TABLE.", required=True),
        text("mode", "How rows are written.", "upsert", choices=("upsert", "insert")),
        text("keyColumns", "The columns of the key, separated by white space."),
        text("keyHeader", "The header with the key of a delete.", "key"),
        flag("delete", "Delete the row of an event without a body.", False),
        text("format", "What bodies are.", "json", choices=("json", "debezium")),
        flag("ignoreUnknownFields", "Leave out fields that have no column.", False),
        flag("autoCreate", "Create a missing table from its first batch.", False),
        text("deadLetterFile", "Where rows go that the table never takes."),
        number("batchSize", "Events per batch.", 100, minimum=1),
    )

    def __init__(self, name: str, settings: Settings) -> None:
        super().__init__(name, settings)
        self._name = table_name(settings)
        self._keys = settings.words("keyColumns")
        self._upsert = settings.text("mode") == "upsert"
        self._deletes = settings.flag("delete")
        if not self._keys and (self._upsert or self._deletes):
            raise settings.wrong("keyColumns", "keyColumns is missing: an upsert has a key")
        self._database = Database(settings)
        if self._upsert and self._database.dialect not in UPSERTS:
            raise settings.wrong(
                "mode",
                f"{self._database.dialect} has no upsert here: write mode = insert, or use "
                f"{', '.join(UPSERTS)}",
            )
        path = settings.optional("deadLetterFile")
        self._dead = None if path is None else DeadLetterFile(Path(path).expanduser())
        self._ignore_unknown = settings.flag("ignoreUnknownFields")
        self._debezium = settings.text("format") == "debezium"
        self._writer: TableWriter | None = None

    def start(self) -> None:
        with self._database.transaction("the table was not found") as connection:
            self._writer = self._open(connection)
        if self._writer is None and not self.settings.flag("autoCreate"):
            raise IngestError(
                f"there is no table {self.settings.text('table')}: create it, or write "
                "autoCreate = true"
            )
        self.counters.add("ConnectionCreatedCount")

    def stop(self) -> None:
        self._database.close()
        self.counters.add("ConnectionClosedCount")

    def deliver(self, batch: EventBatch) -> None:
        try:
            with self._database.transaction(_FAILED) as connection:
                dead = self._write(connection, batch)
                if dead:
                    self._set_aside(dead)
        except IngestError as error:
            # The table may have been changed; describe it again before the next attempt.
            self._writer = None
            self.counters.add("ConnectionFailedCount")
            raise DeliveryFailed(str(error)) from None

    def _write(self, connection: Connection, batch: EventBatch) -> list[DeadLetter]:
        """Write what the table takes, and return the rest."""
        writer = self._writer or self._open(connection)
        dead: list[DeadLetter] = []
        parsed = list(self._parsed(batch, dead))
        if writer is None:
            writer = self._created(connection, parsed)
        self._writer = writer
        changes: list[Change] = []
        for each in parsed:
            try:
                changes.append(self._change(writer, each))
            except BadRow as error:
                dead.append(DeadLetter(each.event, str(error)))
        missed = self._execute(connection, writer, changes, dead)
        dead += [DeadLetter(each.event, _NO_ROW) for each in not_deleted_later(missed, changes)]
        return dead

    def _change(self, writer: TableWriter, parsed: _Parsed) -> Change:
        fields = parsed.fields
        if self._ignore_unknown:
            fields = {key: each for key, each in fields.items() if key in writer.table.c}
        if parsed.delete:
            return writer.deletion(parsed.event, fields)
        unlogged = [each for each in parsed.unlogged if each in writer.table.c]
        if unlogged and not parsed.update:
            raise BadRow(
                f"the value of column {unlogged[0]} was not logged, and a row that is new has none "
                "to keep: write REPLICA IDENTITY FULL for the table in PostgreSQL"
            )
        return writer.row(parsed.event, fields, partial=bool(unlogged))

    def _execute(
        self,
        connection: Connection,
        writer: TableWriter,
        changes: list[Change],
        dead: list[DeadLetter],
    ) -> list[Change]:
        """Execute changes, and return the updates that found no row.

        With a dead letter file, rows that the table refuses are added to `dead`: then each row is
        written under a savepoint of its own.
        """
        if self._dead is None:
            return writer.write(connection, changes)
        try:
            with connection.begin_nested():
                return writer.write(connection, changes)
        except (StatementError, UnicodeError) as error:
            if not _is_about_rows(error):
                raise
        missed: list[Change] = []
        for change in changes:
            try:
                with connection.begin_nested():
                    missed += writer.write(connection, [change])
            except (StatementError, UnicodeError) as error:
                if not _is_about_rows(error):
                    raise
                dead.append(DeadLetter(change.event, self._database.sentence(error)))
        return missed

    def _set_aside(self, dead: list[DeadLetter]) -> None:
        """Write rows to the dead letter file before the others are committed."""
        first = dead[0].reason
        if self._dead is None:
            raise IngestError(
                f"{len(dead)} rows cannot be written, of which the first: {first} (write "
                "deadLetterFile to go on without such rows)"
            )
        try:
            self._dead.append(dead)
        except OSError as error:
            raise IngestError(f"the dead letter file was not written: {error}") from None
        self.counters.add("EventWriteFail", len(dead))
        _log.warning("rows_set_aside", sink=self.name, count=len(dead), reason=first)

    def _parsed(self, batch: EventBatch, dead: list[DeadLetter]) -> Iterator[_Parsed]:
        """Yield what each event says; those that say nothing are added to `dead`."""
        for event in batch:
            try:
                if not event.body:
                    yield _Parsed(event, self._key_fields(event), delete=True)
                    continue
                parsed = _Parsed(event, _object(event.body))
                if self._debezium:
                    parsed = _unwrapped(parsed)
                    if parsed.delete:
                        self._check_deletes()
                        key = self._removed_key(event, parsed.fields)
                        parsed = parsed._replace(fields=key)
                yield parsed
            except BadRow as error:
                dead.append(DeadLetter(event, str(error)))

    def _removed_key(self, event: Event, before: dict[str, Any]) -> dict[str, Any]:
        """Return the key of a deleted row.

        A database that logs only the key of a deleted row leaves the other columns of `before`
        null, or zero, empty or their default where they are NOT NULL: by these another row would
        be deleted. So a key that names its columns counts, and must have all of `keyColumns`.
        """
        key = _named_key(event.headers.get(self.settings.text("keyHeader")))
        if key is None:
            return {each: before.get(each) for each in self._keys}
        lacking = [each for each in self._keys if each not in key]
        if lacking:
            raise BadRow(
                f"the event deletes a row, and its key has no {', '.join(lacking)}: write the "
                "columns of the key as keyColumns"
            )
        return {each: key[each] for each in self._keys}

    def _key_fields(self, event: Event) -> dict[str, Any]:
        """Return the key of a tombstone: a JSON object, also inside Debezium's, or one value."""
        self._check_deletes()
        header = self.settings.text("keyHeader")
        written = event.headers.get(header)
        if written is None:
            raise BadRow(f"the event has no body, and no header {header} that says what to delete")
        key = _named_key(written)
        if key is not None:
            return key
        if len(self._keys) != 1:
            raise BadRow(f"the header {header} is no JSON object of {', '.join(self._keys)}")
        return {self._keys[0]: written}

    def _check_deletes(self) -> None:
        if not self._deletes:
            raise BadRow("the event deletes a row: write delete = true")

    def _open(self, connection: Connection) -> TableWriter | None:
        return TableWriter.of(connection, self._name, self._keys, upsert=self._upsert)

    def _created(self, connection: Connection, parsed: list[_Parsed]) -> TableWriter:
        rows = [each.fields for each in parsed if not each.delete]
        if self.settings.flag("autoCreate") and rows:
            create_table(connection, self._name, self._keys, rows)
        writer = self._open(connection)
        if writer is None:
            raise IngestError(f"there is no table {self.settings.text('table')}")
        _log.info("table_created", sink=self.name, table=self.settings.text("table"))
        return writer


def _named_key(written: str | None) -> dict[str, Any] | None:
    """Return a key that is a JSON object, also in Connect's `payload`; None for any other."""
    try:
        key = None if written is None else json.loads(written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(key, dict):
        return None
    payload = key.get("payload")
    return payload if "schema" in key and isinstance(payload, dict) else key


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRow("the body is no JSON") from None
    if not isinstance(value, dict):
        raise BadRow("the body is no JSON object")
    return value


def _unwrapped(parsed: _Parsed) -> _Parsed:
    """Return what Debezium's envelope in the fields says."""
    value = parsed.fields
    payload = value.get("payload") if "schema" in value else value
    if not isinstance(payload, dict) or "op" not in payload:
        raise BadRow("the body is no envelope of Debezium: it has no op")
    delete = payload["op"] == "d"
    row = payload.get("before" if delete else "after")
    if not isinstance(row, dict):
        raise BadRow(f"the envelope has no row of its op {payload['op']!r}")
    return _Parsed(
        parsed.event,
        {name: each for name, each in row.items() if each not in _UNAVAILABLE},
        delete=delete,
        update=payload["op"] == "u",
        unlogged=tuple(name for name, each in row.items() if each in _UNAVAILABLE),
    )


def _is_about_rows(error: StatementError | UnicodeError) -> bool:
    """Return whether the database refuses a row, and not the statement or everything."""
    if isinstance(error, UnicodeError):  # the driver cannot encode a text
        return True
    if getattr(error, "connection_invalidated", False):
        return False
    if isinstance(error, IntegrityError | DataError) or type(error) is StatementError:
        return True
    arguments: tuple[Any, ...] = getattr(error.orig, "args", ())
    return bool(arguments) and arguments[0] in _VIOLATED_CHECKS
