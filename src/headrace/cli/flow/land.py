"""`headrace flow land`: a topic as Parquet files, one folder per hour, or as a table."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.option import (
    AuditOption,
    BrokersOption,
    TracebackOption,
    VerboseOption,
    bootstrap_servers,
    kafka_pairs,
)
from headrace.cli.terminal.pair import parse_pairs
from headrace.cli.terminal.registry_option import optional_registry
from headrace.flow.error import FlowError
from headrace.flow.land import Landing, stray_files
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.storage.file_store import FileStore
from headrace.flow.storage.location import Location
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.flow.land_table import TableLanding

_TIME: Final = "timestamp"

EXAMPLES = """
Examples:

  headrace flow land clicks --to lake/clicks                    until Ctrl-C

  headrace flow land clicks --to lake/clicks --available-now    records up to now, then end

  headrace flow land clicks --to lake/clicks --as json --columns 'page STRING, ms INT'

  headrace flow land clicks --table delta:lake/clicks           or --table iceberg:CATALOG.DB.TABLE

With --to, files are in date=2026-11-15/hour=09 (UTC), and Spark reads each record once:
spark.read.parquet(DIR). Other readers also see files that a crash left, until a run with --tidy
removes them. With --table, the offsets are in the table's own commits: every reader sees each
record once, and headrace land goes on where this has ended.
"""


def land(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Several with commas between.")],
    to: Annotated[
        str | None, typer.Option("--to", metavar="DIR|URI", help="Where the files go.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="TABLE", help="Instead: iceberg:CATALOG.DB.TABLE or delta:PATH."
        ),
    ] = None,
    catalog: Annotated[
        list[str] | None,
        typer.Option("--catalog", metavar="KEY=VALUE", help="A property of the Iceberg catalog."),
    ] = None,
    partition_by: Annotated[
        str | None,
        typer.Option("--partition-by", metavar="hour(COLUMN)", help="Of a table; or day(COLUMN)."),
    ] = None,
    upsert: Annotated[
        str | None,
        typer.Option(
            "--upsert", metavar="KEY,...", help="Of a table: replace rows of the same keys."
        ),
    ] = None,
    envelope: Annotated[
        str | None,
        typer.Option("--envelope", help="Of a table: debezium, if values are change events."),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL,...", help="Of a table with --as registry."),
    ] = None,
    brokers: BrokersOption = None,
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="raw, string, json, csv or avro: how values are decoded; of a table raw, json or"
            " registry.",
        ),
    ] = "raw",
    columns: Annotated[
        str | None, typer.Option(help="Of json, csv and avro values: 'page STRING, ms INT'.")
    ] = None,
    time_field: Annotated[
        str, typer.Option("--time", help="The field that chooses the hour, such as value.at.")
    ] = _TIME,
    start: Annotated[str, typer.Option(help="earliest or latest, the first time.")] = "earliest",
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Records up to now, then end.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="How often files are written: 30s, 5m.")
    ] = "1m",
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    tidy: Annotated[
        bool, typer.Option("--tidy", help="First remove files that a crash left.")
    ] = False,
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master.")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|URI", help="Default: DIR/_checkpoint, or PATH_checkpoint of delta:PATH."
        ),
    ] = None,
    audit: AuditOption = None,
    verbose: VerboseOption = False,
    traceback: TracebackOption = False,
    pairs: Annotated[
        list[str] | None,
        typer.Option(
            "-X", metavar="KEY=VALUE", help="An option of the source, kafka.* or spark.*."
        ),
    ] = None,
) -> None:
    """Write a topic to Parquet files by hour, or to a table, each record exactly once."""
    from headrace.cli.flow.execution import Execution, activation_of
    from headrace.cli.flow.flow_run import RunOptions, is_first_run, started
    from headrace.flow.land_table import TableLanding
    from headrace.model.table.table_name import TableName
    from headrace.spark.source.offset_finder import check_there

    if (to is None) == (table is None):
        raise InvalidArgument("name either a folder with --to DIR or a table with --table TABLE")
    if to is not None and (catalog or any((partition_by, upsert, envelope, registry))):
        raise InvalidArgument(
            "--catalog, --partition-by, --upsert, --envelope and --registry belong to --table"
        )
    if table is not None and (tidy or time_field != _TIME):
        raise InvalidArgument(
            "--tidy and --time belong to --to: tables have headrace table expire and --partition-by"
        )
    given = parse_pairs(pairs, "-X")
    registered = None
    if table is not None:
        others, registered = optional_registry(registry, pairs)
        given = parse_pairs(others, "-X")
    texts = kafka_pairs(given)
    if audit is not None:
        texts["audit"] = "on" if audit else "off"
    own = {key: each for key, each in texts.items() if not key.startswith("spark.")}
    landing: Landing | TableLanding
    if table is None:
        landing = Landing(
            topics=topic,
            brokers=bootstrap_servers(brokers),
            folder=to or "",
            format=form,
            columns=columns,
            time=time_field,
            starting=start,
            options=own,
        )
    else:
        landing = TableLanding(
            topic=topic,
            brokers=bootstrap_servers(brokers),
            table=TableName.parse(table),
            catalog=parse_pairs(catalog, "--catalog"),
            values=form,
            columns=columns,
            keys=tuple(each.strip() for each in (upsert or "").split(",") if each.strip()),
            envelope=envelope,
            partition_by=partition_by,
            registry=registered,
            starting=start,
            options=own,
        )
    location = landing.checkpoint if checkpoint is None else Location.of(checkpoint)
    name = landing.name
    options = RunOptions(
        program=f"land {topic}",
        brokers=landing.brokers,
        checkpoint=location,
        master=master,
        seconds=None if duration is None else parse_duration(duration),
        once=available_now,
        verbose=verbose,
        traceback=traceback,
    ).with_spark_log(name)
    kafka = {key: each for key, each in texts.items() if key.startswith("kafka.")}
    source = {"kafka.bootstrap.servers": landing.brokers, "subscribe": topic, **kafka}
    if options.is_first_run():
        check_there(source)
    trigger = (
        {"availableNow": True}
        if available_now
        else {"processingTime": f"{parse_duration(every):g} seconds"}
    )
    with started(name, options, texts) as (spark, stopped, watch):
        if options.is_first_run() is None and is_first_run(spark, options):
            check_there(source)
        if tidy and isinstance(landing, Landing):
            _tidy(landing.files(spark))
        begin = _Begin(landing, spark, location.text, trigger)
        Execution(
            name=name,
            options=options,
            spark=spark,
            begin=begin,
            change=_refuse,
            graph=dict,
            stopped=stopped,
            watch=watch,
            metrics=MetricsServer(),
            activation=activation_of(spark, options),
        ).run()


class _Begin:
    """Starts the query of a landing."""

    def __init__(
        self, landing: "Landing | TableLanding", spark: Any, checkpoint: str, trigger: Any
    ) -> None:
        self._landing, self._spark = landing, spark
        self._checkpoint, self._trigger = checkpoint, trigger

    def __call__(self) -> Any:
        return self._landing.start(self._spark, checkpoint=self._checkpoint, trigger=self._trigger)


def _refuse(request: object) -> None:
    raise FlowError("landing a topic has no tasks to rebalance")


def _tidy(folder: FileStore) -> None:
    stray = stray_files(folder)
    for each in stray:
        folder.remove(each)
    print(f"Removed {len(stray)} files that a crash left.", flush=True)
