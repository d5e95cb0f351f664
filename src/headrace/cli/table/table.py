"""`headrace table`: look after tables that topics land in."""

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.cli.table.land import CatalogOption
from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_fields, print_json
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.pair import parse_pairs

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="iceberg:CATALOG.DB.TABLE or delta:PATH.")
]
SmallOption = Annotated[
    int, typer.Option("--target", min=1, metavar="BYTES", help="How large files should be.")
]
_TARGET_BYTES = 128 * 1024 * 1024


@app.command(
    epilog=epilog("""
Examples:

  headrace table status delta:lake/clicks

  headrace table status delta:lake/clicks --format json

LAG counts records that the topic has and the table lacks; it is unknown if no broker answers.
""")
)
def status(
    table: TableArgument,
    catalog: CatalogOption = None,
    target: SmallOption = _TARGET_BYTES,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Show rows, files, snapshots, and how far a table is behind its topic."""
    from headrace.client.error import ClientError
    from headrace.landing.lag import landing_lag
    from headrace.landing.table_factory import existing_table
    from headrace.model.table.table_name import TableName

    found = existing_table(TableName.parse(table), parse_pairs(catalog, "--catalog"))
    state = found.status(small_bytes=target // 2)
    lag: Any = None
    try:
        with connect(brokers, setting) as pool:
            lag = landing_lag(pool, found)
    except ClientError:
        lag = None
    fields = {
        "table": str(found.name),
        "topic": found.source.topic,
        "rows": state.rows,
        "files": state.files,
        "small_files": state.small_files,
        "bytes": state.size_bytes,
        "snapshots": state.snapshots,
        "version": state.version,
        "changed": None
        if state.changed_ms is None
        else datetime.fromtimestamp(state.changed_ms / 1000, UTC).isoformat(timespec="seconds"),
        "lag": lag,
    }
    if format is OutputFormat.JSON:
        print_json(fields)
    else:
        print_fields(fields)


@app.command(
    epilog=epilog("""
Examples:

  headrace table compact delta:lake/clicks

  headrace table compact iceberg:lake.shop.clicks --target 67108864

A landing may run meanwhile. Files that were replaced stay until `headrace table expire`.
""")
)
def compact(
    table: TableArgument, catalog: CatalogOption = None, target: SmallOption = _TARGET_BYTES
) -> None:
    """Rewrite small files into larger ones."""
    from headrace.landing.table_factory import existing_table
    from headrace.model.table.table_name import TableName

    found = existing_table(TableName.parse(table), parse_pairs(catalog, "--catalog"))
    removed, added = found.compact(target_bytes=target)
    print(f"{found.name}: {removed} files rewritten as {added}")


@app.command(
    epilog=epilog("""
Examples:

  headrace table expire delta:lake/clicks                        states older than a week

  headrace table expire iceberg:lake.shop.clicks --older-than 24h

Readers of an older state fail afterwards, and so does a landing whose commit takes longer than
--older-than: it must not be shorter than an hour.
""")
)
def expire(
    table: TableArgument,
    catalog: CatalogOption = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="What to drop: 24h, 168h.")
    ] = "168h",
    force: Annotated[
        bool, typer.Option("--force", help="Also less than an hour; nothing may write meanwhile.")
    ] = False,
) -> None:
    """Drop old snapshots, and files that no snapshot names."""
    from headrace.landing.table_factory import existing_table
    from headrace.model.error import InvalidArgument
    from headrace.model.table.table_name import TableName

    seconds = parse_duration(older_than)
    if seconds < 3600 and not force:
        raise InvalidArgument(
            f"--older-than {older_than}: files of a commit that is being made could be removed; "
            "write 1h or more, or add --force while nothing writes to the table"
        )
    found = existing_table(TableName.parse(table), parse_pairs(catalog, "--catalog"))
    states, files = found.expire(older_than_ms=int((time.time() - seconds) * 1000))
    print(f"{found.name}: {states} old states dropped, {files} files removed")
