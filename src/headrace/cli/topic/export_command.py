"""`headrace topic export`: the records of a topic, in a file."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.record.file_format import FieldFormat, FileFormat
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output_format import OutputFormat
from headrace.cli.terminal.progress import progress
from headrace.cli.terminal.stop import Stop
from headrace.cli.topic.report import print_copied

EXAMPLES = """
Examples:

  headrace topic export clicks clicks.parquet           all records up to now

  headrace topic export clicks clicks/ --format parquet    one file per partition

  headrace topic export clicks today.jsonl --from @2026-11-15 --value-format json

  headrace topic export clicks hour.csv --from @-1h -p 0 -p 1

  headrace topic export blobs blobs.csv --key-format text --value-format base64

  headrace topic export clicks some.parquet --from 1000 --to 2000

The file gets its name only when it is complete: until then it is a hidden file beside it, which is
removed after a failure. `headrace topic import` restores nulls, headers, times and bytes.

OFFSET is start, end, a number, +2 (two after the start), -3 (three before the end) or @TIME.
Records of open and aborted transactions are left out unless --read-uncommitted is given.

Parquet stores bytes. CSV and JSON lines store text (UTF-8), base64 or JSON, in columns called
value, value_base64 or value_json, and times in milliseconds. An import restores JSON equal as JSON,
and everything else byte by byte.
"""


def export(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    target: Annotated[
        str, typer.Argument(metavar="FILE|DIR/", help="Where to; DIR/: one file per partition.")
    ],
    format: Annotated[
        FileFormat | None, typer.Option("--format", help="Default: the suffix of FILE.")
    ] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="OFFSET", help="Where to begin in each partition.")
    ] = "start",
    end: Annotated[
        str, typer.Option("--to", metavar="OFFSET", help="Where to end; that record is left out.")
    ] = "end",
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", min=0, help="Only these partitions.")
    ] = None,
    key_format: Annotated[
        FieldFormat | None, typer.Option("--key-format", help="How keys are written in text.")
    ] = None,
    value_format: Annotated[
        FieldFormat | None, typer.Option("--value-format", help="How values are written in text.")
    ] = None,
    read_uncommitted: Annotated[
        bool, typer.Option("--read-uncommitted", help="Aborted and open transactions too.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Write the records of a topic to a file."""
    # Imported here: they load numba and pyarrow, which other commands of this noun do not need.
    from headrace.cli.record.file_format import format_of
    from headrace.cli.record.offset_spec import parse_offset_spec
    from headrace.cli.topic.choice import chosen_partitions
    from headrace.cli.topic.export import Export, export_ranges
    from headrace.model.clock import SystemClock

    path = Path(target)
    by_partition = target.endswith("/") or path.is_dir()
    kind = (format or FileFormat.PARQUET) if by_partition else format_of(path, format)
    first, past = parse_offset_spec(start, SystemClock()), parse_offset_spec(end, SystemClock())
    with connect(brokers, setting) as pool, Stop() as stop:
        partitions = chosen_partitions(pool, [topic], partition)
        ranges = export_ranges(pool, partitions, first, past, read_committed=not read_uncommitted)
        work = Export(pool.settings, ranges, kind, key_format, value_format, not read_uncommitted)
        total = sum(offsets.past - offsets.first for offsets in ranges.values())
        with progress("exporting", total) as advance, stop.waiting():
            if by_partition:
                work.into_directory(path, topic, advance)
            else:
                work.into_file(path, advance, replace=force)
    print_copied(OutputFormat.TEXT, topic, sorted(work.done.items()))
