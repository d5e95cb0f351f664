"""`headrace cluster`: a cluster's brokers, health and configuration."""

from typing import Annotated, Any

import typer

from headrace.cli import cluster_log_dir, cluster_replica, cluster_restart
from headrace.cli.cluster_health import cluster_health
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_fields, print_json, print_rows, print_table
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.topic.describe_command import config_rows
from headrace.client.admin.admin import Admin
from headrace.client.error import BrokerError, ClientError
from headrace.model.config_code import ConfigResourceType

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)
cluster_replica.register(app)
cluster_log_dir.register(app)
cluster_restart.register(app)


@app.command(
    epilog=epilog("""
Examples:

  headrace cluster info

  headrace cluster info -b kafka-1:9092,kafka-2:9092 --format json
""")
)
def info(
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Show a cluster: its id, its brokers, its topics and partitions."""
    with connect(brokers, setting) as pool:
        metadata = pool.metadata()
        features = pool.any().features
    topics = [topic for topic in metadata.topics.values() if not topic.internal]
    summary = {
        "cluster": metadata.cluster_id,
        "controller": metadata.controller,
        "brokers": len(metadata.brokers),
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "features": features,
    }
    rows = [
        {
            "id": each.node_id,
            "host": each.address.host,
            "port": each.address.port,
            "rack": each.rack,
            "controller": each.node_id == metadata.controller,
        }
        for _, each in sorted(metadata.brokers.items())
    ]
    if format is OutputFormat.JSON:
        print_json(summary | {"brokers": rows})
        return
    shown = ", ".join(f"{name}={level}" for name, level in sorted(features.items()))
    print_fields(summary | {"features": shown or None})
    print()
    print_table(list(rows[0]) if rows else ["id"], [list(row.values()) for row in rows])


@app.command(
    epilog=epilog("""
Examples:

  headrace cluster health                               exit code 0 if healthy, 1 if not

  headrace cluster health --format json
""")
)
def health(
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Check that every broker answers and every partition has its leader and its replicas."""
    with connect(brokers, setting) as pool:
        report = cluster_health(pool, pool.metadata())
    if format is OutputFormat.JSON:
        print_json(report)
    else:
        print_fields({name: _shown(value) for name, value in report.items()})
    if not report["healthy"]:
        raise typer.Exit(1)


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return value


@app.command(
    epilog=epilog("""
Examples:

  headrace cluster configs                              keys that are not at their default

  headrace cluster configs --all                        all keys

  headrace cluster configs log.retention.ms num.partitions --broker 1 --format json
""")
)
def configs(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Only these keys.")
    ] = None,
    broker: Annotated[
        list[int] | None, typer.Option("--broker", help="Only these brokers, by id.")
    ] = None,
    all_: Annotated[bool, typer.Option("-a", "--all", help="Also keys at their default.")] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Show the configuration of brokers."""
    with connect(brokers, setting) as pool:
        known = pool.metadata(()).brokers
        chosen = broker or sorted(known)
        for node_id in chosen:
            if node_id not in known:
                raise ClientError(f"there is no broker {node_id}: the cluster has {sorted(known)}")
        described = Admin(pool).describe_configs(
            ConfigResourceType.BROKER, [str(each) for each in chosen]
        )
    rows: list[dict[str, Any]] = []
    missing = set(keys or ())
    for name, entries in described.items():
        if isinstance(entries, BrokerError):
            raise ClientError(f"cannot describe the configuration of broker {name}: {entries}")
        shown = [
            entry
            for entry in entries
            if (entry.name in keys if keys else all_ or not entry.is_default)
        ]
        missing.difference_update(entry.name for entry in shown)
        rows += [{"broker": int(name), **row} for row in config_rows(shown)]
    headings = ["broker", "key", "value", "source"]
    print_rows(format, headings, [list(row.values()) for row in rows])
    if missing:
        raise ClientError(f"brokers have no configuration key {', '.join(sorted(missing))}")
