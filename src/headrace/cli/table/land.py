"""`headrace land`: a topic as a Delta or Iceberg table."""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, client_settings
from headrace.cli.terminal.pair import parse_pairs
from headrace.cli.terminal.registry_option import REGISTRY_VARIABLE, optional_registry
from headrace.cli.terminal.stop import Stop
from headrace.config.client_file import CLIENT_CONFIG_VARIABLE
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.landing.committer import Landed

# What a topic's configuration says, by the names of parameters.
_TOPICS_OWN = (
    "topic",
    "table",
    "form",
    "schema",
    "upsert",
    "envelope",
    "partition_by",
    "start",
    "every",
    "most_rows",
    "most_bytes",
    "retry",
)
_TOPIC = "TOPIC"
_OPTIONS = {
    "form": "--as",
    "partition_by": "--partition-by",
    "most_rows": "--rows",
    "most_bytes": "--bytes",
}

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace land clicks --table delta:lake/clicks                 until Ctrl-C

  headrace land clicks --table delta:lake/clicks --available-now    records up to now, then end

  headrace land clicks --table iceberg:lake.shop.clicks --catalog uri=sqlite:///lake.db --catalog
    warehouse=file://$PWD/lake

  headrace land clicks --table delta:lake/clicks --partition-by 'hour(timestamp)'

  headrace land clicks --table delta:lake/clicks --as json --schema 'page STRING, ms INT'

  headrace land orders --table delta:lake/orders --as registry --registry http://127.0.0.1:8081

  headrace land users --table delta:lake/users --as json --schema 'id INT, name STRING' --upsert id
    --envelope debezium

  headrace land --configured --folder lake       every topic whose headrace.table.name names a table

The table stores the offsets in the commit of the rows: a run goes on where the table is, and no
record is lost or doubled, however the last run ended. A second process that lands the same topic in
the same table ends with an error. Records of aborted transactions are left out. A record that is no
row goes to the table TABLE_dead_letters, with its bytes and the reason.

With --configured, the configuration of each topic says where and how it lands: headrace topic
alter-config TOPIC --set headrace.table.name=delta:clicks. Topics that are configured later are
found while it runs. Write --catalog NAME:KEY=VALUE then, because topics may use several catalogs.
"""

CatalogOption = Annotated[
    list[str] | None,
    typer.Option(
        "--catalog",
        metavar="KEY=VALUE",
        help="A property of the Iceberg catalog, such as uri; else those of ~/.pyiceberg.yaml.",
    ),
]


@command.command(epilog=epilog(_EXAMPLES))
def land(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="What to land.", show_default=False)
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="TABLE", help="iceberg:CATALOG.DB.TABLE or delta:PATH."),
    ] = None,
    configured: Annotated[
        bool,
        typer.Option("--configured", help="Every topic whose headrace.table.name names a table."),
    ] = False,
    folder: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Of --configured: where Delta tables of topics are."),
    ] = Path(),
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Of --configured: how many topics land at once.")
    ] = 2,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Of --configured: serve figures to Prometheus."),
    ] = None,
    catalog: CatalogOption = None,
    form: Annotated[
        str, typer.Option("--as", help="raw, json or registry: how values become columns.")
    ] = "raw",
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="COLUMNS|FILE",
            help="Of json: 'page STRING, ms INT'; else the first records show them.",
        ),
    ] = None,
    upsert: Annotated[
        str | None,
        typer.Option("--upsert", metavar="KEY,...", help="Replace rows of the same keys."),
    ] = None,
    envelope: Annotated[
        str | None, typer.Option("--envelope", help="debezium: values are change events.")
    ] = None,
    partition_by: Annotated[
        str | None,
        typer.Option("--partition-by", metavar="hour(COLUMN)", help="Or day(COLUMN)."),
    ] = None,
    start: Annotated[str, typer.Option(help="earliest or latest, the first time.")] = "earliest",
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Records up to now, then end.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="How long rows wait for a commit: 5s, 1m.")
    ] = "5s",
    most_rows: Annotated[
        int, typer.Option("--rows", min=1, help="Commit earlier with so many rows.")
    ] = 5_000_000,
    most_bytes: Annotated[
        int, typer.Option("--bytes", min=1, help="Commit earlier with so many bytes of files.")
    ] = 512 * 1024 * 1024,
    retry: Annotated[
        str, typer.Option(metavar="TIME", help="How long to try a table that does not answer.")
    ] = "1m",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    skip_lost: Annotated[
        bool, typer.Option("--skip-lost", help="Go on behind records that the topic lost.")
    ] = False,
    registry: Annotated[
        str | None,
        typer.Option(
            "--registry",
            metavar="URL,...",
            help=f"Where the schema registry of --as registry is; else ${REGISTRY_VARIABLE}, else"
            f" ${CLIENT_CONFIG_VARIABLE}'s.",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No line per commit.")] = False,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Write a topic to a table, or every configured one to its own, each record exactly once."""
    if configured:
        from headrace.cli.table.land_configured import land_configured

        _check_options(context, _TOPICS_OWN, "is said by each topic's headrace.table.* keys")
        land_configured(
            folder=folder,
            catalog=catalog,
            workers=workers,
            metrics=metrics,
            registry=registry,
            skip_lost=skip_lost,
            available_now=available_now,
            duration=duration,
            quiet=quiet,
            brokers=brokers,
            setting=setting,
        )
        return
    _check_options(context, ("folder", "workers", "metrics"), "goes with --configured only")
    if topic is None or table is None:
        raise InvalidArgument(
            "name a topic and its table: headrace land TOPIC --table delta:PATH; or land every "
            "topic that names one: headrace land --configured"
        )
    from headrace.client.read.read_range import LogEdge
    from headrace.client.settings import ClientSettings
    from headrace.landing.column_ddl import declared_columns
    from headrace.landing.lander import Lander, LandingOptions
    from headrace.landing.row.choice import row_decoder
    from headrace.landing.source import Source
    from headrace.landing.time_partition import TimePartition
    from headrace.model.table.table_name import TableName
    from headrace.serde.registry_client import RegistryClient

    if start not in ("earliest", "latest"):
        raise InvalidArgument(f"--start cannot be {start!r}: write earliest or latest")
    options = LandingOptions(
        table=TableName.parse(table),
        catalog=parse_pairs(catalog, "--catalog"),
        start=LogEdge(start),
        follow=not available_now,
        every_seconds=parse_duration(every),
        most_rows=most_rows,
        most_bytes=most_bytes,
        retry_seconds=parse_duration(retry),
        skip_lost=skip_lost,
    )
    by = None if partition_by is None else str(TimePartition.parse(partition_by))
    keys = tuple(each.strip() for each in (upsert or "").split(",") if each.strip())
    source = Source(
        topic=topic, topic_id=None, values=form, keys=keys, envelope=envelope, partition_by=by
    )
    texts, registered = optional_registry(registry, setting)
    deadline = None if duration is None else time.monotonic() + parse_duration(duration)
    status = StatusLine(topic, options.table, quiet=quiet)
    with ExitStack() as stack:
        stop = stack.enter_context(Stop())
        decoder = row_decoder(
            form,
            columns=None if schema is None else declared_columns(schema),
            keys=keys,
            envelope=envelope,
            registry=None
            if registered is None
            else stack.enter_context(RegistryClient(registered)),
            partition_by=by,
        )
        landed = Lander(
            ClientSettings.of(client_settings(brokers, texts)),
            source,
            decoder,
            options,
            committed=status.show,
            lost=status.warn,
        ).run(lambda: stop.requested or (deadline is not None and time.monotonic() >= deadline))
    status.end(landed)


def _check_options(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Refuse options that were given and do not fit."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = _TOPIC if name == "topic" else _OPTIONS.get(name, f"--{name}")
            raise InvalidArgument(f"{option} {why}")


class StatusLine:
    """Shows the progress of a landing: on a terminal a line that changes, else one per commit."""

    def __init__(self, topic: str, table: object, *, quiet: bool) -> None:
        self._what = f"{topic} -> {table}"
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()

    def show(self, landed: "Landed") -> None:
        """Show what was landed, after a commit."""
        if self._quiet:
            return
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{self._text(landed)}")
            sys.stderr.flush()
        else:
            print(self._text(landed), flush=True)

    def warn(self, sentence: str) -> None:
        """Print a warning on a line of its own."""
        print(f"{self._clear()}headrace: {sentence}", file=sys.stderr, flush=True)

    def end(self, landed: "Landed") -> None:
        """Print what was landed in all."""
        sys.stderr.write(self._clear())
        print(self._text(landed), flush=True)

    def _clear(self) -> str:
        return "\r\x1b[K" if self._terminal and not self._quiet else ""

    def _text(self, landed: "Landed") -> str:
        seconds = max(time.monotonic() - self._began, 0.001)
        text = f"{self._what}: {landed.rows} rows in {landed.commits} commits"
        if landed.dead_letters:
            text += f", {landed.dead_letters} dead letters"
        return f"{text}, {landed.rows / seconds:.0f} rows/s"
