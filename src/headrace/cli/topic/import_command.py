"""`headrace topic import`: the records of a file, in a topic."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.record.file_format import FileFormat, format_of, is_known
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output_format import OutputFormat
from headrace.cli.terminal.progress import progress
from headrace.cli.terminal.stop import Stop
from headrace.cli.topic.report import print_copied
from headrace.client.error import ClientError
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.client.write.writer import Writer

EXAMPLES = """
Examples:

  headrace topic import clicks.parquet clicks

  headrace topic import clicks/ clicks                  all files of a directory

  headrace topic import people.csv people --repartition    by the hashes of the keys

  headrace topic import lines.jsonl clicks -Z zstd

A file has the column value (or value_base64, value_json), and may have key (key_base64, key_json),
headers, timestamp in milliseconds and partition: what `headrace topic export` writes. Records go to
the partition they name, in the order of the file. Without one, or with --repartition, they go to
the partition of the key's hash, as Kafka's clients choose it; those without a key go to the
partitions in turn. The broker assigns new offsets.
"""


def import_file(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="What to read.")],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to write; it must exist.")],
    format: Annotated[
        FileFormat | None, typer.Option("--format", help="Default: the suffix of FILE.")
    ] = None,
    repartition: Annotated[
        bool, typer.Option("--repartition", help="Ignore the partitions in the file.")
    ] = False,
    compression: Annotated[
        str, typer.Option("-Z", "-z", "--compression", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Write the records of a file to a topic."""
    # Imported here: it loads numba and pyarrow, which other commands of this noun do not need.
    from headrace.client.write.writer import Writer

    files = [(each, format_of(each, format)) for each in _files(path)]
    total = sum(each.stat().st_size for each, _ in files)
    with connect(brokers, setting) as pool, Stop() as stop:
        writer = Writer(pool.settings, topic, codec=compression)
        try:
            with progress("importing", total, unit="bytes") as advance, stop.waiting(), writer:
                for table in _tables(files, advance):
                    _write(writer, table, repartition)
        finally:
            written = ((each.partition, landed) for each, landed in writer.written.items())
            print_copied(OutputFormat.TEXT, topic, written)


def _write(writer: "Writer", table: Any, repartition: bool) -> None:
    has_partition = "partition" in table.schema.names
    if has_partition and repartition:
        table = table.drop_columns(["partition"])
    try:
        writer.write(table)
    except InvalidArgument as error:
        advice = "; give --repartition to place records by their keys" if has_partition else ""
        raise ClientError(f"{error}{advice}") from error


def _files(path: Path) -> list[Path]:
    """Return the file, or the files of a directory in the order of their names.

    Raises:
        InvalidArgument: there is no such file.
    """
    if not path.exists():
        raise InvalidArgument(f"there is no file {path}")
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.iterdir() if each.is_file() and is_known(each))
    if not files:
        raise InvalidArgument(f"{path} has no .parquet, .csv or .jsonl file")
    return files


def _tables(files: list[tuple[Path, FileFormat]], advance: Any) -> Iterator[Any]:
    from headrace.cli.record.file import read_records

    for path, kind in files:
        yield from read_records(path, kind, advance)
