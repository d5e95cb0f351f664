"""`headrace topic produce`: lines of standard input become records."""

import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.progress import progress
from headrace.cli.topic.report import print_copied
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.cli.record.line_format import LineFormat
    from headrace.cli.topic.production import Production

EXAMPLES = r"""
Examples:

  echo hello | headrace topic produce greetings         one record without a key

  headrace topic produce clicks -k alice                every line you type, with the key alice

  headrace topic produce clicks -f '%k\t%v' < clicks.tsv

  headrace topic produce clicks -H source:web -H region:eu -Z zstd < lines.txt

  echo | headrace topic produce users -k alice --tombstone    a null value: compaction deletes alice

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
    common = _CommonFields(key, header, partition, tombstone)
    with connect(brokers, setting) as pool:
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


class _CommonFields:
    """What `-k`, `-H`, `-p` and `--tombstone` give to every record."""

    def __init__(
        self, key: str | None, headers: list[str] | None, partition: int | None, tombstone: bool
    ) -> None:
        self.key = None if key is None else key.encode()
        self.headers = [_header(each) for each in headers or ()]
        self.partition = partition
        self.tombstone = tombstone


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
        return {index: ([common.key] * len(chunk), list(chunk))}
    rows: dict[int, tuple[list[bytes | None], list[bytes | None]]] = {}
    for number, line in enumerate(chunk, first):
        parsed = lines.parse(line, number)
        key = common.key if parsed.key is None else parsed.key
        index = common.partition if parsed.partition is None else parsed.partition
        if index is None:
            index = next_partition if key is None else production.partition_of_key(key)
        keys, values = rows.setdefault(index, ([], []))
        keys.append(key)
        values.append(parsed.value)
    return rows


def _tables(
    rows: dict[int, tuple[list[bytes | None], list[bytes | None]]], common: _CommonFields
) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa

    for index, (keys, values) in rows.items():
        if common.tombstone:
            values = [value or None for value in values]
        columns: dict[str, Any] = {"value": pa.array(values, pa.large_binary())}
        if any(key is not None for key in keys):
            columns["key"] = pa.array(keys, pa.large_binary())
        if common.headers:
            kind = pa.map_(pa.string(), pa.binary())
            columns["headers"] = pa.array([common.headers] * len(values), kind)
        yield index, pa.table(columns)
