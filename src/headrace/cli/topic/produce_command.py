"""`headrace topic produce`: lines of standard input become records."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.progress import progress
from headrace.cli.terminal.registry_option import RegistryOption, connect_registry
from headrace.cli.topic.report import print_copied
from headrace.cli.topic.schema_option import (
    SchemaIdOption,
    SchemaKeyIdOption,
    SchemaKeyTypeOption,
    SchemaTypeOption,
)
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.cli.record.line_format import LineFormat
    from headrace.cli.record.registry_encoder import RegistryEncoder
    from headrace.cli.topic.production import Production

EXAMPLES = r"""
Examples:

  echo hello | headrace topic produce greetings         one record without a key

  headrace topic produce clicks -k alice                every line you type, with the key alice

  headrace topic produce clicks -f '%k\t%v' < clicks.tsv

  headrace topic produce clicks -H source:web -H region:eu -Z zstd < lines.txt

  echo | headrace topic produce users -k alice --tombstone    a null value: compaction deletes alice

  headrace topic produce clicks --schema-id topic < clicks.jsonl     by the latest of clicks-value

  headrace topic produce clicks -f '%k %v' --schema-key-id 3 --schema-id 7 --schema-type shop.Click

With a schema, values (and keys) are written as JSON, in the form that Avro, Protobuf or JSON Schema
has for it: a union of Avro names its branch, as in {"string": "x"}. A line that does not fit stops
the command and is named; lines before it may have been written, as the table says.

Records with a key go to the partition of its hash, as Kafka's clients choose it; others go to the
partitions in turn. A record is counted when all in-sync replicas have it.
"""


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to write.")],
    key: Annotated[str | None, typer.Option("-k", "--key", help="The key of every record.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", metavar="KEY:VALUE", help="A header of every record."),
    ] = None,
    compression: Annotated[
        str, typer.Option("-Z", "-z", "--compression", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", min=0, help="The partition to write to.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("-f", metavar="FORMAT", help="How to read a line: %k %v %p.")
    ] = None,
    tombstone: Annotated[
        bool, typer.Option("--tombstone", help="An empty value becomes a null.")
    ] = False,
    schema_id: SchemaIdOption = None,
    schema_key_id: SchemaKeyIdOption = None,
    schema_type: SchemaTypeOption = None,
    schema_key_type: SchemaKeyTypeOption = None,
    registry: RegistryOption = None,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Write a record for each line of standard input."""
    # Imported here: they load numba and pyarrow, which other commands of this noun do not need.
    from headrace.cli.record.line_format import LineFormat
    from headrace.cli.topic.choice import chosen_partitions
    from headrace.cli.topic.production import Production
    from headrace.records.compression import codec_named

    codec = codec_named(compression).name.lower()
    lines = None if text is None else LineFormat(text)
    if (schema_type and not schema_id) or (schema_key_type and not schema_key_id):
        raise InvalidArgument("--schema-type needs --schema-id, and --schema-key-type the key's")
    schemas = ((schema_key_id, schema_key_type), (schema_id, schema_type))
    with (
        connect(brokers, setting) as pool,
        _encoders(topic, schemas, registry, setting) as (key_encoder, value_encoder),
    ):
        common = _CommonFields(key, header, partition, tombstone, key_encoder, value_encoder)
        partitions = [each.partition for each in chosen_partitions(pool, [topic])]
        if partition is not None and partition not in partitions:
            raise InvalidArgument(
                f"topic {topic} has no partition {partition}, only 0 to {max(partitions)}"
            )
        production = Production(pool, topic, partitions, codec)
        stopped = False
        try:
            _run(production, common, lines)
        except KeyboardInterrupt:
            stopped = True
        finally:
            production.close()
            written = [pair for pair in sorted(production.done.items()) if pair[1].records]
            print_copied(format, topic, written)
        if stopped:
            raise typer.Exit(0 if sys.stdin.isatty() else 130)


@contextmanager
def _encoders(
    topic: str,
    schemas: tuple[tuple[str | None, str | None], tuple[str | None, str | None]],
    registry: str | None,
    setting: list[str] | None,
) -> "Iterator[tuple[RegistryEncoder | None, RegistryEncoder | None]]":
    """Return the encoders of keys and values; None for what is written as it is."""
    (key_id, key_type), (value_id, value_type) = schemas
    if key_id is None and value_id is None:
        yield None, None
        return
    from headrace.cli.record.registry_encoder import RegistryEncoder

    with connect_registry(registry, setting) as client:
        keys = values = None
        if key_id is not None:
            keys = RegistryEncoder(client, topic, key_id, key_type, key=True)
        if value_id is not None:
            values = RegistryEncoder(client, topic, value_id, value_type)
        yield keys, values


class _CommonFields:
    """What `-k`, `-H`, `-p`, `--tombstone` and schemas give to every record."""

    def __init__(
        self,
        key: str | None,
        headers: list[str] | None,
        partition: int | None,
        tombstone: bool,
        key_encoder: "RegistryEncoder | None",
        value_encoder: "RegistryEncoder | None",
    ) -> None:
        self._key_encoder = key_encoder
        self._value_encoder = value_encoder
        self.key = None if key is None else self.encoded_key(key.encode(), None)
        self.headers = [_header(each) for each in headers or ()]
        self.partition = partition
        self.tombstone = tombstone

    def encoded_key(self, key: bytes, line: int | None) -> bytes | None:
        """Return a key as the topic has it.

        Raises:
            Unencodable: it does not fit its schema.
        """
        return key if self._key_encoder is None else self._key_encoder.encode(key, line)

    def encoded_value(self, value: bytes | None, line: int) -> bytes | None:
        """Return a value as the topic has it.

        Raises:
            Unencodable: it does not fit its schema.
        """
        if self.tombstone and not value:
            return None
        return value if self._value_encoder is None else self._value_encoder.encode(value, line)

    def encoded_values(self, lines: list[bytes], first: int) -> list[bytes | None]:
        """Return the values of whole lines; `first` is the number of the first one."""
        if self._value_encoder is None and not self.tombstone:
            return list(lines)
        return [self.encoded_value(line, number) for number, line in enumerate(lines, first)]


def _header(text: str) -> tuple[str, bytes]:
    key, colon, value = text.partition(":")
    if not colon or not key:
        raise InvalidArgument(f"-H {text} has no value: write it as -H key:value")
    return key, value.encode()


def _run(production: "Production", common: _CommonFields, lines: "LineFormat | None") -> None:
    from headrace.cli.record.line_source import read_lines

    descriptor = sys.stdin.fileno()
    size = os.fstat(descriptor).st_size if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    first = 1
    with progress("producing", size, unit="bytes") as advance:
        for chunk in read_lines(descriptor):
            rows = _rows(production, common, lines, chunk, first)
            production.write(dict(_tables(rows, common)))
            first += len(chunk)
            advance(sum(map(len, chunk)) + len(chunk))


def _rows(
    production: "Production",
    common: _CommonFields,
    lines: "LineFormat | None",
    chunk: list[bytes],
    first: int,
) -> dict[int, tuple[list[bytes | None], list[bytes | None]]]:
    """Return the keys and values of a chunk of lines, by partition."""
    next_partition = production.next_partition()
    if lines is None:
        index = common.partition
        if index is None:
            index = (
                next_partition if common.key is None else production.partition_of_key(common.key)
            )
        return {index: ([common.key] * len(chunk), common.encoded_values(chunk, first))}
    rows: dict[int, tuple[list[bytes | None], list[bytes | None]]] = {}
    for number, line in enumerate(chunk, first):
        parsed = lines.parse(line, number)
        key = common.key if parsed.key is None else common.encoded_key(parsed.key, number)
        index = common.partition if parsed.partition is None else parsed.partition
        if index is None:
            index = next_partition if key is None else production.partition_of_key(key)
        keys, values = rows.setdefault(index, ([], []))
        keys.append(key)
        values.append(common.encoded_value(parsed.value, number))
    return rows


def _tables(
    rows: dict[int, tuple[list[bytes | None], list[bytes | None]]], common: _CommonFields
) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa

    for index, (keys, values) in rows.items():
        columns: dict[str, Any] = {"value": pa.array(values, pa.large_binary())}
        if any(key is not None for key in keys):
            columns["key"] = pa.array(keys, pa.large_binary())
        if common.headers:
            kind = pa.map_(pa.string(), pa.binary())
            columns["headers"] = pa.array([common.headers] * len(values), kind)
        yield index, pa.table(columns)
