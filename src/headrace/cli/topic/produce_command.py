"""`headrace topic produce`: lines of standard input become records."""

import os
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_rows
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.progress import progress
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

Records with a key go to the partition of its hash, as Kafka's clients choose it; others go to one
partition after the other. Every record is on all in-sync replicas before it is counted.
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
    # Loaded here: they bring numba and pyarrow, which no other command of this noun needs.
    from headrace.cli.record.line_format import LineFormat
    from headrace.cli.topic.choice import chosen_partitions
    from headrace.cli.topic.production import Production
    from headrace.records.compression import codec_named

    codec = codec_named(compression).name.lower()
    lines = None if text is None else LineFormat(text)
    fixed = _Fixed(key, header, partition, tombstone)
    with connect(brokers, setting) as pool:
        partitions = [each.partition for each in chosen_partitions(pool, [topic])]
        if partition is not None and partition not in partitions:
            raise InvalidArgument(
                f"topic {topic} has partitions 0 to {max(partitions)}, and no {partition}"
            )
        production = Production(pool, topic, partitions, codec)
        stopped = False
        try:
            _run(production, fixed, lines)
        except KeyboardInterrupt:
            stopped = True
        finally:
            production.close()
            _report(format, topic, production)
        if stopped:
            raise typer.Exit(0 if sys.stdin.isatty() else 130)


class _Fixed:
    """What all records have in common."""

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


def _run(production: "Production", fixed: _Fixed, lines: "LineFormat | None") -> None:
    from headrace.cli.record.line_source import read_lines

    descriptor = sys.stdin.fileno()
    size = os.fstat(descriptor).st_size if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    first = 1
    with progress("producing", size, unit="bytes") as advance:
        for chunk in read_lines(descriptor):
            rows = _rows(production, fixed, lines, chunk, first)
            production.write(dict(_tables(rows, fixed)))
            first += len(chunk)
            advance(sum(map(len, chunk)) + len(chunk))


Row = tuple[bytes | None, bytes | None]


def _rows(
    production: "Production",
    fixed: _Fixed,
    lines: "LineFormat | None",
    chunk: list[bytes],
    first: int,
) -> dict[int, tuple[list[bytes | None], list[bytes | None]]]:
    """Keys and values by partition."""
    turn = production.next_partition()
    if lines is None:
        index = fixed.partition
        if index is None:
            index = turn if fixed.key is None else production.partition_of_key(fixed.key)
        return {index: ([fixed.key] * len(chunk), list(chunk))}
    found: dict[int, tuple[list[bytes | None], list[bytes | None]]] = {}
    for number, line in enumerate(chunk, first):
        parsed = lines.parse(line, number)
        key = fixed.key if parsed.key is None else parsed.key
        index = fixed.partition if parsed.partition is None else parsed.partition
        if index is None:
            index = turn if key is None else production.partition_of_key(key)
        keys, values = found.setdefault(index, ([], []))
        keys.append(key)
        values.append(parsed.value)
    return found


def _tables(
    rows: dict[int, tuple[list[bytes | None], list[bytes | None]]], fixed: _Fixed
) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa

    for index, (keys, values) in rows.items():
        if fixed.tombstone:
            values = [value or None for value in values]
        columns: dict[str, Any] = {"value": pa.array(values, pa.large_binary())}
        if any(key is not None for key in keys):
            columns["key"] = pa.array(keys, pa.large_binary())
        if fixed.headers:
            kind = pa.map_(pa.string(), pa.binary())
            columns["headers"] = pa.array([fixed.headers] * len(values), kind)
        yield index, pa.table(columns)


def _report(style: OutputFormat, topic: str, production: "Production") -> None:
    print_rows(
        style,
        ["topic", "partition", "records", "first_offset", "last_offset"],
        [
            (topic, index, each.records, each.first_offset, each.last_offset)
            for index, each in sorted(production.done.items())
            if each.records
        ],
    )
