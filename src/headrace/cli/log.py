"""`headrace log`: print log segments on disk."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.log_dump import Damage, dump_file, dumpable_files
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.progress import progress

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def log() -> None:
    """Print log segments on disk, without a broker."""


@app.command(
    epilog=epilog("""
Examples:

  headrace log dump data/clicks-0                       all files of a partition

  headrace log dump data/clicks-0/00000000000000000000.log --records

  headrace log dump data --format json > everything.jsonl

It reads files of Headrace and of Apache Kafka: .log, .index, .timeindex, .txnindex, .snapshot and
leader-epoch-checkpoint. With --format json it prints one object per entry and line. A damaged file
is reported on standard error with the position, the other files are printed, and the exit code is
1. """)
)
def dump(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR")],
    records: Annotated[
        bool, typer.Option("-r", "--records", help="Show the records of each batch.")
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
) -> None:
    """Check and print batches, records and index entries."""
    files = [file for path in paths for file in dumpable_files(path)]
    damaged = False
    with progress("reading", sum(file.stat().st_size for file in files), unit="bytes") as advance:
        for file in files:
            if format is OutputFormat.TEXT:
                print(f"{file}")
            try:
                for entry in dump_file(file, records=records):
                    _print(format, file, entry)
            except Damage as damage:
                damaged = True
                sys.stdout.flush()
                print(f"headrace: {damage}", file=sys.stderr)
            advance(file.stat().st_size)
    if damaged:
        raise typer.Exit(1)


def _print(style: OutputFormat, file: Path, entry: dict[str, Any]) -> None:
    if style is OutputFormat.JSON:
        print(json.dumps({"file": str(file), **entry}, ensure_ascii=False))
        return
    records = entry.pop("records", ())
    print("  " + _line(entry))
    for record in records:
        print("    " + _line(record))


def _line(entry: dict[str, Any]) -> str:
    """Return `name value` pairs, without fields that have no content: no producer, no headers, not
    transactional."""
    return "  ".join(
        f"{name} {json.dumps(value, ensure_ascii=False) if name in _TEXTS else value}"
        for name, value in entry.items()
        if not (name in _OPTIONAL and _is_empty(value))
    )


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value == -1 or value == []


_OPTIONAL = frozenset(
    {
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "last_sequence",
        "transactional",
        "control",
        "headers",
        "coordinator_epoch",
        "transaction_first_offset",
    }
)
# Content of records: quoted, so that it cannot break a line or a terminal.
_TEXTS = frozenset({"key", "value", "headers"})
