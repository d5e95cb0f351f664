"""The streams and tables that statements can name, and the topics they stand for."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.sql.error import SqlError
from headrace.flow.sql.statement import ColumnDeclaration, CreateStatement
from headrace.model.error import ConfigError
from headrace.serde.registry_client_settings import REGISTRY_CONFIG, URL, RegistryClientSettings

FORMATS = ("json", "csv", "avro", "string", "protobuf")
METADATA = {
    "key": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
}
"""The columns of a record that a column of a stream may stand for, with their types."""

_OPTIONS = (
    *("topic", "format", "timestamp", "watermark", "key", "schema", "starting", "partitions"),
    *("schema.registry", "subject", "message"),
)
_REGISTRY = "schema.registry."
_STARTS = ("earliest", "latest")
_COUNTS = [str(number) for number in range(10_000)]
_PREFIXES = ("kafka.", "source.")
_REGISTRY_FORMATS = ("avro", "protobuf", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDefinition:
    """A stream or table, as CREATE declares it.

    Attributes:
        table: it has the newest row of every key, instead of all rows.
        columns: name, type, and the column of the record, or None for a column of the value.
        timestamp: the column with the time of a row; a `watermark` bounds how late rows may be.
        key: the column that is the key of records that are written, and of a table.
        schema: the Avro schema of avro values; with a registry, the text of one to register.
        registry: settings of the schema registry that values have their schema in.
        subject, message: which of its schemas, and which message of a Protobuf schema.
    """

    name: str
    topic: str
    table: bool = False
    format: str = "json"
    columns: tuple[tuple[str, str, str | None], ...]
    timestamp: str | None = None
    watermark: str | None = None
    key: str | None = None
    schema: str | None = None
    starting: str = "earliest"
    partitions: int = 0
    options: tuple[tuple[str, str], ...] = ()
    registry: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    subject: str | None = None
    message: str | None = None

    @property
    def value_columns(self) -> list[tuple[str, str]]:
        return [(name, ddl) for name, ddl, metadata in self.columns if metadata is None]

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.columns]


def stream_of(create: CreateStatement, script: str) -> StreamDefinition:
    """Return the stream that a statement declares.

    Raises:
        SqlError: showing the mistake in the statement.
    """
    options = create.options
    for name, each in options.items():
        known = REGISTRY_CONFIG.keys if name.startswith(_REGISTRY) else _OPTIONS
        if name not in known and not name.startswith(_PREFIXES):
            near = difflib.get_close_matches(name, known, n=1)
            instead = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise SqlError(f"there is no option {name}; {instead}", script, each.start)
    texts = {name: each.text for name, each in options.items()}
    stream = StreamDefinition(
        name=create.name,
        topic=texts.get("topic", create.name),
        table=create.table,
        format=_one_of(create, script, "format", FORMATS),
        columns=tuple(_column(each, script) for each in create.columns),
        timestamp=texts.get("timestamp"),
        watermark=texts.get("watermark"),
        key=texts.get("key"),
        schema=texts.get("schema"),
        starting=_one_of(create, script, "starting", _STARTS),
        partitions=int(_one_of(create, script, "partitions", _COUNTS)),
        options=tuple(
            sorted(
                (key.removeprefix("source."), each)
                for key, each in texts.items()
                if key.startswith(_PREFIXES)
            )
        ),
        registry=_registry(texts, create, script),
        subject=texts.get("subject"),
        message=texts.get("message"),
    )
    for option, why in _problems(stream):
        at = options[option].start if option in options else create.start
        raise SqlError(why, script, at)
    return stream


def _registry(
    texts: Mapping[str, str], create: CreateStatement, script: str
) -> tuple[tuple[str, str], ...]:
    """Return the registry's settings; `schema.registry` is short for `schema.registry.url`."""
    found = {key: each for key, each in texts.items() if key.startswith(_REGISTRY)}
    if "schema.registry" in texts:
        found.setdefault(URL, texts["schema.registry"])
    if not found:
        return ()
    try:
        RegistryClientSettings.of(found)
    except ConfigError as error:
        option = next(key for key in texts if key.startswith("schema.registry"))
        raise SqlError(str(error), script, create.options[option].start) from None
    return tuple(sorted(found.items()))


def _one_of(create: CreateStatement, script: str, name: str, known: Sequence[str]) -> str:
    """Return the value of an option; the first of the known values by default."""
    option = create.options.get(name)
    if option is None:
        return known[0]
    if option.text.lower() not in known:
        shown = ", ".join(known) if len(known) < 10 else f"{known[0]} to {known[-1]}"
        raise SqlError(f"{name} cannot be {option.text!r}: write {shown}", script, option.start)
    return option.text.lower()


def _problems(stream: StreamDefinition) -> Iterator[tuple[str, str]]:
    """Yield options that do not fit each other, with the reason."""
    known = ", ".join(stream.names)
    for option, column in (("timestamp", stream.timestamp), ("key", stream.key)):
        if column is not None and stream.columns and column not in stream.names:
            yield option, f"{option} is {column!r}, which is no column: there are {known}"
    if stream.watermark is not None and stream.timestamp is None:
        yield "watermark", "a watermark needs the option timestamp too, naming a column"
    if stream.table and stream.key is None:
        yield "key", "a table needs WITH (key = '...'), naming a column"
    if stream.registry:
        if stream.format not in _REGISTRY_FORMATS:
            known = ", ".join(_REGISTRY_FORMATS)
            yield "format", f"with schema.registry the format is one of {known}"
    elif stream.format == "protobuf" or stream.subject or stream.message:
        option = (
            "format" if stream.format == "protobuf" else "subject" if stream.subject else "message"
        )
        yield option, "it needs the option schema.registry, as in 'http://127.0.0.1:8081'"
    elif (stream.format == "avro") != (stream.schema is not None) and stream.columns:
        why = "format avro, and no other, needs the option schema: an Avro schema"
        yield "schema", f"{why}; or set schema.registry"
    kinds = [ddl for _, ddl in stream.value_columns]
    if stream.format == "string" and stream.columns and kinds != ["STRING"]:
        yield "format", "format string needs one column of type STRING for the value"


def _column(column: ColumnDeclaration, script: str) -> tuple[str, str, str | None]:
    try:
        fields = Fields.parse(f"{column.name} {column.ddl}")
    except FlowError:
        why = f"{column.ddl} is not a type; write STRING, BIGINT, DOUBLE, TIMESTAMP, ARRAY<...> ..."
        raise SqlError(why, script, column.start) from None
    ddl = fields.ddl_of(column.name)
    if column.metadata is not None and column.metadata not in METADATA:
        why = f"a record has no {column.metadata!r}: it has {', '.join(METADATA)}"
        raise SqlError(why, script, column.start)
    return column.name, ddl, column.metadata


class Catalog:
    """Streams by name, in any case of letters. With a file it outlives the process.

    Options may hold passwords, so only the file's owner may read it. A write makes a new file of
    that mode and renames it, so a crash leaves the old catalog or the new one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._streams: dict[str, StreamDefinition] = {}
        if path is not None and path.exists():
            for each in self._read(path):
                self._streams[each.name.lower()] = each

    def __iter__(self) -> Iterator[StreamDefinition]:
        return iter(sorted(self._streams.values(), key=lambda each: each.name))

    def get(self, name: str) -> StreamDefinition | None:
        return self._streams.get(name.lower())

    def find(self, name: str, script: str, at: int) -> StreamDefinition:
        """Return the stream of a name.

        Raises:
            SqlError: there is none.
        """
        stream = self.get(name)
        if stream is None:
            near = difflib.get_close_matches(name.lower(), self._streams, n=1)
            instead = f"did you mean {near[0]}?" if near else "SHOW STREAMS lists those there are"
            raise SqlError(f"there is no stream {name}; {instead}", script, at)
        return stream

    def put(self, stream: StreamDefinition) -> None:
        self._streams[stream.name.lower()] = stream
        self._write()

    def drop(self, name: str) -> None:
        self._streams.pop(name.lower(), None)
        self._write()

    @staticmethod
    def _read(path: Path) -> Iterator[StreamDefinition]:
        try:
            for each in json.loads(path.read_text()):
                yield StreamDefinition(**{key: _frozen(value) for key, value in each.items()})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise FlowError(f"{path} is no catalog of streams: {error}") from error

    def _write(self) -> None:
        if self._path is None:
            return
        part = self._path.with_name(f"{self._path.name}.part")
        # One that a crash or another program left may have another mode.
        part.unlink(missing_ok=True)
        part.touch(mode=0o600, exist_ok=False)
        part.write_text(json.dumps([asdict(each) for each in self], indent=2))
        part.replace(self._path)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value
