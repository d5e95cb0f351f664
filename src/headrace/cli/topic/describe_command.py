"""`headrace topic describe`: leaders, offsets and configuration of topics."""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import finish, print_fields, print_json, print_table, status
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.topic.choice import matching_topics
from headrace.client.admin.admin import Admin, ConfigEntry
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.metadata import TopicMetadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.model.config_code import ConfigResourceType
from headrace.model.ids import uuid_text

EXAMPLES = """
Examples:

  headrace topic describe clicks                        summary, partitions with offsets, configs

  headrace topic describe clicks -p                     only the partitions

  headrace topic describe 'click.*' -r -s --format json
"""


def describe(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC")],
    regex: Annotated[
        bool, typer.Option("-r", "--regex", help="The names are regular expressions.")
    ] = False,
    summary: Annotated[bool, typer.Option("-s", "--summary", help="Only the summary.")] = False,
    partitions: Annotated[
        bool, typer.Option("-p", "--partitions", help="Only the partitions.")
    ] = False,
    configs: Annotated[bool, typer.Option("-c", "--configs", help="Only the configs.")] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Describe topics: leaders, offsets, configuration."""
    everything = not (summary or partitions or configs)
    shown = [
        section
        for section, chosen in (("summary", summary), ("partitions", partitions))
        if chosen or everything
    ]
    if configs or everything:
        shown.append("configs")
    with connect(brokers, setting) as pool:
        metadata = pool.metadata(None if regex else names)
        chosen_names = matching_topics(metadata, names) if regex else list(dict.fromkeys(names))
        descriptions, problems = [], []
        for name in chosen_names:
            topic = metadata.topics[name]
            if topic.error is None:
                descriptions.append(_describe(pool, topic, shown))
            else:
                problems.append(topic.error)
                print(f"headrace: topic {name}: {topic.error}", file=sys.stderr)
    if format is OutputFormat.JSON:
        print_json(descriptions)
    else:
        for number, description in enumerate(descriptions):
            if number:
                print()
            _print_description(description)
    finish(problems)


def _describe(pool: ConnectionPool, topic: TopicMetadata, shown: Sequence[str]) -> dict[str, Any]:
    description: dict[str, Any] = {}
    if "summary" in shown:
        description["summary"] = {
            "name": topic.name,
            "id": None if topic.topic_id is None else uuid_text(topic.topic_id),
            "internal": topic.internal,
            "partitions": len(topic.partitions),
            "replicas": topic.replication_factor,
        }
    if "partitions" in shown:
        logs = extents(pool, [topic.partition(index) for index in topic.partitions])
        description["partitions"] = [
            {
                "partition": index,
                "leader": each.leader,
                "epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "in_sync": list(each.in_sync),
                **_extent(logs[topic.partition(index)]),
            }
            for index, each in topic.partitions.items()
        ]
    if "configs" in shown:
        entries = Admin(pool).describe_configs(ConfigResourceType.TOPIC, [topic.name])[topic.name]
        if isinstance(entries, BrokerError):
            raise ClientError(f"cannot describe the configuration of {topic.name}: {entries}")
        description["configs"] = config_rows(entries)
    return description


def _extent(outcome: LogExtent | ClientError) -> dict[str, Any]:
    if isinstance(outcome, ClientError):
        return {"log_start": None, "log_end": None, "records": None, "error": status(outcome)}
    count = outcome.end - outcome.start
    return {"log_start": outcome.start, "log_end": outcome.end, "records": count, "error": None}


def config_rows(entries: Iterable[ConfigEntry]) -> list[dict[str, Any]]:
    """Return the configuration as rows, sorted by key. Brokers do not return the values of
    secrets."""
    return [
        {
            "key": entry.name,
            "value": "(hidden)" if entry.sensitive else entry.value,
            "source": entry.source.name,
        }
        for entry in sorted(entries, key=lambda entry: entry.name)
    ]


def _print_description(description: dict[str, Any]) -> None:
    first = True
    for name, section in description.items():
        if not first:
            print()
        first = False
        if isinstance(section, list):
            rows = [dict(row) for row in section]
            if name == "partitions" and all(row["error"] is None for row in rows):
                for row in rows:
                    del row["error"]
            print_table(list(rows[0]) if rows else [], [list(row.values()) for row in rows])
        else:
            print_fields(section)
