"""`headrace topic`: create, look at, change, write, read and delete topics."""

import sys
from typing import Annotated, Any

import typer

from headrace.cli.record.offset_spec import parse_offset_spec, resolve
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import finish, print_rows, status
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.pair import parse_pairs
from headrace.cli.topic import (
    consume_command,
    describe_command,
    export_command,
    import_command,
    produce_command,
)
from headrace.cli.topic.choice import chosen_partitions, matching_topics
from headrace.cli.topic.schema_option import ConsumeCommand
from headrace.client.admin.admin import BROKER_CHOOSES, Admin, ConfigChange, NewTopic
from headrace.client.error import BrokerError, ClientError
from headrace.model.clock import SystemClock
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

NamesArgument = Annotated[list[str], typer.Argument(metavar="TOPIC")]
RegexOption = Annotated[
    bool, typer.Option("-r", "--regex", help="The names are regular expressions.")
]


@app.command(
    epilog=epilog("""
Examples:

  headrace topic create clicks                          with the broker's default partitions

  headrace topic create clicks orders -p 6 -r 3

  headrace topic create users -p 3 -c cleanup.policy=compact -c retention.ms=-1
""")
)
def create(
    names: NamesArgument,
    partitions: Annotated[
        int, typer.Option("-p", "--partitions", help="How many; -1: the broker's default.")
    ] = BROKER_CHOOSES,
    replicas: Annotated[
        int, typer.Option("-r", "--replicas", help="Copies of each; -1: the broker's default.")
    ] = BROKER_CHOOSES,
    config: Annotated[
        list[str] | None,
        typer.Option("-c", "--topic-config", metavar="KEY=VALUE", help="A topic configuration."),
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed if the topic exists.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("-d", "--dry", help="Only check.")] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Create topics."""
    configs = parse_pairs(config, "-c")
    with connect(brokers, setting) as pool:
        topics = [NewTopic(name, partitions, replicas, configs) for name in dict.fromkeys(names)]
        outcomes = Admin(pool).create_topics(topics, validate_only=dry_run)
    if if_not_exists:
        outcomes = {name: _unless_exists(outcome) for name, outcome in outcomes.items()}
    _report(format, outcomes)


def _unless_exists(outcome: BrokerError | None) -> BrokerError | None:
    exists = outcome is not None and outcome.code is ErrorCode.topic_already_exists
    return None if exists else outcome


@app.command(
    "list",
    epilog=epilog("""
Examples:

  headrace topic list                                   all but internal topics

  headrace topic list 'click.*' -r                      those that match

  headrace topic list --internal --format json
"""),
)
def list_topics(
    names: Annotated[list[str] | None, typer.Argument(metavar="TOPIC")] = None,
    regex: RegexOption = False,
    internal: Annotated[
        bool, typer.Option("-i", "--internal", help="Internal topics too.")
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """List topics."""
    with connect(brokers, setting) as pool:
        metadata = pool.metadata()
    chosen = None if names is None else set(matching_topics(metadata, names) if regex else names)
    topics = [
        topic
        for name, topic in sorted(metadata.topics.items())
        if (internal or not topic.internal) and (chosen is None or name in chosen)
    ]
    print_rows(
        format,
        ["name", "partitions", "replicas"],
        [(each.name, len(each.partitions), each.replication_factor) for each in topics],
    )
    if names is not None and not regex:
        missing = sorted(set(names) - set(metadata.topics))
        if missing:
            raise ClientError(f"there is no topic {', '.join(missing)}")


@app.command(
    "alter-config",
    epilog=epilog("""
Examples:

  headrace topic alter-config clicks --set retention.ms=86400000

  headrace topic alter-config clicks orders --set cleanup.policy=compact --delete retention.ms

  headrace topic alter-config clicks --append cleanup.policy=delete
"""),
)
def alter_config(
    names: NamesArgument,
    set_: Annotated[
        list[str] | None, typer.Option("-s", "--set", metavar="KEY=VALUE", help="Set a key.")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("-d", "--delete", metavar="KEY", help="Back to default.")
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="Add to a list.")
    ] = None,
    subtract: Annotated[
        list[str] | None,
        typer.Option("--subtract", metavar="KEY=VALUE", help="Remove from a list."),
    ] = None,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Change the configuration of topics."""
    changes = [
        ConfigChange(operation, key, value)
        for operation, pairs in (
            (ConfigOperation.SET, parse_pairs(set_, "--set")),
            (ConfigOperation.APPEND, parse_pairs(append, "--append")),
            (ConfigOperation.SUBTRACT, parse_pairs(subtract, "--subtract")),
        )
        for key, value in pairs.items()
    ]
    changes += [ConfigChange(ConfigOperation.DELETE, key) for key in delete or ()]
    if not changes:
        raise InvalidArgument("nothing to change: give --set, --delete, --append or --subtract")
    with connect(brokers, setting) as pool:
        _report(
            format,
            Admin(pool).alter_configs(ConfigResourceType.TOPIC, dict.fromkeys(names, changes)),
        )


@app.command(
    "add-partitions",
    epilog=epilog("""
Examples:

  headrace topic add-partitions clicks -n 3             three more than there are

Records stay where they are. A key's new records may go to another partition than its old ones.
"""),
)
def add_partitions(
    names: NamesArgument,
    num: Annotated[int, typer.Option("-n", "--num", min=1, help="How many more.")],
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Add partitions to topics."""
    with connect(brokers, setting) as pool:
        metadata = pool.metadata(names)
        outcomes: dict[str, BrokerError | None] = {
            name: metadata.topics[name].error for name in dict.fromkeys(names)
        }
        totals = {
            name: len(metadata.topics[name].partitions) + num
            for name, error in outcomes.items()
            if error is None
        }
        if totals:
            outcomes |= Admin(pool).create_partitions(totals)
    _report(format, outcomes)


@app.command(
    "trim-prefix",
    epilog=epilog("""
Examples:

  headrace topic trim-prefix clicks -o end              delete all records

  headrace topic trim-prefix clicks -o 1000 -p 0 -p 1   records below offset 1000

  headrace topic trim-prefix clicks -o @2026-07-01      records older than that
"""),
)
def trim_prefix(
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    offset: Annotated[
        str, typer.Option("-o", "--offset", metavar="OFFSET", help="Delete the records below it.")
    ],
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", min=0, help="Only these partitions.")
    ] = None,
    no_confirm: Annotated[bool, typer.Option("--no-confirm", help="Do not ask first.")] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Delete the oldest records of a topic."""
    spec = parse_offset_spec(offset, SystemClock())
    with connect(brokers, setting) as pool:
        partitions = chosen_partitions(pool, [name], partition)
        resolved = resolve(pool, spec, partitions)
        offsets = {each: at for each, at in resolved.items() if isinstance(at, int)}
        confirm(f"Delete the records of {name} below {_listed(offsets)}?", no_confirm)
        outcomes: dict[TopicPartition, Any] = resolved | Admin(pool).delete_records(offsets)
    print_rows(
        format,
        ["topic", "partition", "log_start", "status"],
        [
            (each.topic, each.partition, at if isinstance(at, int) else None, status(at))
            for each, at in outcomes.items()
        ],
    )
    finish(outcomes.values())


def _listed(offsets: dict[TopicPartition, int]) -> str:
    return ", ".join(f"{offset} in partition {each.partition}" for each, offset in offsets.items())


def confirm(question: str, no_confirm: bool) -> None:
    """Ask before a deletion; a script is not asked."""
    if not no_confirm and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise typer.Exit(1)


@app.command(
    epilog=epilog("""
Examples:

  headrace topic delete clicks orders

  headrace topic delete 'test-.*' -r
""")
)
def delete(
    names: NamesArgument,
    regex: RegexOption = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Delete topics and all their records."""
    with connect(brokers, setting) as pool:
        topics = list(dict.fromkeys(names))
        if regex:
            topics = matching_topics(pool.metadata(), names)
        _report(format, Admin(pool).delete_topics(topics) if topics else {})


def _report(style: OutputFormat, outcomes: dict[str, BrokerError | None]) -> None:
    rows = [(name, status(outcome)) for name, outcome in outcomes.items()]
    print_rows(style, ["topic", "status"], rows)
    finish(outcomes.values())


app.command("describe", epilog=epilog(describe_command.EXAMPLES))(describe_command.describe)
app.command("produce", epilog=epilog(produce_command.EXAMPLES))(produce_command.produce)
app.command("consume", cls=ConsumeCommand, epilog=epilog(consume_command.EXAMPLES))(
    consume_command.consume
)
app.command("export", epilog=epilog(export_command.EXAMPLES))(export_command.export)
app.command("import", epilog=epilog(import_command.EXAMPLES))(import_command.import_file)
