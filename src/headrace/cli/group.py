"""`headrace group`: describe consumer groups and move their offsets."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli.record.offset_spec import OffsetOrigin, OffsetSpec, parse_offset_spec, resolve
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import (
    finish,
    print_fields,
    print_json,
    print_rows,
    print_table,
    status,
)
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.topic.choice import chosen_partitions
from headrace.client.error import BrokerError, ClientError
from headrace.client.group.group_admin import GroupAdmin, GroupDescription
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.model.clock import SystemClock
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP")]
GroupArgument = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command(
    "list",
    epilog=epilog("""
Examples:

  headrace group list

  headrace group list --state Stable --state Empty --format json
"""),
)
def list_groups(
    state: Annotated[
        list[str] | None, typer.Option("-s", "--state", help="Only groups in this state.")
    ] = None,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """List groups."""
    with connect(brokers, setting) as pool:
        groups = GroupAdmin(pool).list_groups(state or ())
    print_rows(
        format,
        ["broker", "group", "state", "type"],
        [(each.broker, each.group, each.state, each.type or each.protocol_type) for each in groups],
    )


@app.command(
    epilog=epilog("""
Examples:

  headrace group describe billing                       members, offsets and lag

  headrace group describe billing audit -s              only the summaries

  headrace group describe billing --format json
""")
)
def describe(
    groups: GroupsArgument,
    summary: Annotated[bool, typer.Option("-s", "--summary", help="Only the summary.")] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Describe groups: state, members, and lag in every partition."""
    descriptions: list[dict[str, Any]] = []
    problems: list[BrokerError] = []
    with connect(brokers, setting) as pool:
        for name in dict.fromkeys(groups):
            group = GroupAdmin(pool).describe(name)
            if isinstance(group, BrokerError):
                problems.append(group)
                print(f"headrace: group {name}: {status(group)}", file=sys.stderr)
            else:
                descriptions.append(_describe(pool, group))
    if format is OutputFormat.JSON:
        print_json(descriptions)
    else:
        for number, description in enumerate(descriptions):
            if number:
                print()
            _print_description(description, summary)
    finish(problems)


def _describe(pool: ConnectionPool, group: GroupDescription) -> dict[str, Any]:
    committed = GroupAdmin(pool).offsets(group.group)
    owners = {each: member for member in group.members for each in member.partitions}
    partitions = sorted({*committed, *owners})
    ends = extents(pool, partitions)
    rows = []
    for each in partitions:
        owner = owners.get(each)
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                **_lag(committed.get(each), ends[each]),
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    return {
        "group": group.group,
        "coordinator": group.coordinator,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor or None,
        "members": len(group.members),
        "total_lag": sum(row["lag"] or 0 for row in rows),
        "partitions": rows,
    }


def _lag(committed: int | None, extent: LogExtent | ClientError) -> dict[str, Any]:
    """Return the lag of a partition. Without a committed offset it is the whole log."""
    if isinstance(extent, ClientError):
        return {"offset": committed, "log_start": None, "log_end": None, "lag": None}
    read_to = extent.start if committed is None else max(committed, extent.start)
    return {
        "offset": committed,
        "log_start": extent.start,
        "log_end": extent.end,
        "lag": max(0, extent.end - read_to),
    }


def _print_description(description: dict[str, Any], summary: bool) -> None:
    rows = description.pop("partitions")
    print_fields(description)
    if not summary and rows:
        print()
        print_table(list(rows[0]), [list(row.values()) for row in rows])


@app.command(
    epilog=epilog("""
Examples:

  headrace group seek billing --to start                read all records again

  headrace group seek billing --to end --topics clicks  skip the rest of one topic

  headrace group seek billing --to @2026-07-01T12:00Z   back to a time, in all its topics

  headrace group seek billing --to -100                 the last 100 of each partition again

  headrace group seek billing --to 47 --topics clicks -p 2

  headrace group seek new-billing --to-group billing    to the offsets of another group

The group must have no members while it is moved. Without --topics, all topics in which the group
has committed are moved. OFFSET is start, end, a number, +N after the start, -N before the end, or
@TIME.
""")
)
def seek(
    group: GroupArgument,
    to: Annotated[
        str | None, typer.Option("--to", metavar="OFFSET", help="The next offset to read.")
    ] = None,
    to_group: Annotated[
        str | None,
        typer.Option("--to-group", metavar="GROUP", help="The offsets of another group."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="TOPIC,...", help="Only these topics; new ones too."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", min=0, help="Only these partitions.")
    ] = None,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Move the offsets of a group."""
    if (to is None) == (to_group is None):
        raise InvalidArgument("say where to: either --to OFFSET or --to-group GROUP")
    spec = None if to is None else parse_offset_spec(to, SystemClock())
    names = split_names(topics)
    with connect(brokers, setting) as pool:
        admin = GroupAdmin(pool)
        before = admin.offsets(group)
        if spec is not None:
            resolved = _targets(pool, spec, group, before, names, partition)
        else:
            assert to_group is not None
            resolved = _offsets_of(admin, to_group, names, partition)
        targets = {each: at for each, at in resolved.items() if isinstance(at, int)}
        outcomes: dict[TopicPartition, Any] = {
            each: at for each, at in resolved.items() if isinstance(at, ClientError)
        } | admin.commit(group, targets)
    rows = [
        (each.topic, each.partition, before.get(each), targets.get(each), status(outcomes[each]))
        for each in sorted(outcomes)
    ]
    print_rows(format, ["topic", "partition", "prior_offset", "current_offset", "status"], rows)
    finish(outcomes.values())


def split_names(options: list[str] | None) -> list[str]:
    """Return names that are given in several options, or separated by commas."""
    return [name.strip() for each in options or () for name in each.split(",") if name.strip()]


def _targets(
    pool: ConnectionPool,
    spec: OffsetSpec,
    group: str,
    before: Mapping[TopicPartition, int],
    names: list[str],
    only: list[int] | None,
) -> dict[TopicPartition, int | ClientError]:
    topics = names or sorted({each.topic for each in before})
    if not topics:
        raise ClientError(f"group {group} has committed nothing yet: name its topics with --topics")
    partitions = chosen_partitions(pool, topics, only)
    offsets = resolve(pool, spec, partitions)
    if spec.origin is not OffsetOrigin.OFFSET:
        return offsets
    ends = extents(pool, partitions)
    for each in partitions:
        extent = ends[each]
        if isinstance(extent, ClientError):
            offsets[each] = extent
        elif not extent.start <= spec.number <= extent.end:
            offsets[each] = ClientError(
                f"offset {spec.number} lies outside {extent.start} to {extent.end} "
                "(a time is written as @TIME)"
            )
    return offsets


def _offsets_of(
    admin: GroupAdmin, group: str, names: list[str], only: list[int] | None
) -> dict[TopicPartition, int | ClientError]:
    offsets: dict[TopicPartition, int | ClientError] = {
        each: offset
        for each, offset in admin.offsets(group).items()
        if (not names or each.topic in names) and (not only or each.partition in only)
    }
    if not offsets:
        raise ClientError(f"group {group} has committed nothing there")
    return offsets


@app.command(
    "offset-delete",
    epilog=epilog("""
Examples:

  headrace group offset-delete billing --topics clicks         all partitions of a topic

  headrace group offset-delete billing --topics clicks:0,1     two of them
"""),
)
def offset_delete(
    group: GroupArgument,
    topics: Annotated[
        list[str],
        typer.Option("-t", "--topics", metavar="TOPIC[:PARTITION,...]", help="What to delete."),
    ],
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Delete committed offsets of topics that the group no longer reads."""
    named = dict(_parse_partitions(each) for each in topics)
    with connect(brokers, setting) as pool:
        admin = GroupAdmin(pool)
        committed = admin.offsets(group)
        partitions: list[TopicPartition] = []
        for topic, indexes in named.items():
            if indexes is None:
                indexes = [each.partition for each in committed if each.topic == topic]
            if not indexes:
                raise ClientError(f"group {group} has committed nothing in topic {topic}")
            partitions += [TopicPartition(topic, index) for index in indexes]
        outcomes = admin.delete_offsets(group, partitions)
    print_rows(
        format,
        ["topic", "partition", "status"],
        [(each.topic, each.partition, status(outcomes[each])) for each in sorted(outcomes)],
    )
    finish(outcomes.values())


def _parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """Return a topic and some of its partitions, or None for all with a committed offset."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    indexes = numbers.split(",")
    if not topic or not all(index.isascii() and index.isdigit() for index in indexes):
        raise InvalidArgument(f"{text!r} names no partitions: write it as clicks:0,1")
    return topic, [int(index) for index in dict.fromkeys(indexes)]


@app.command(
    epilog=epilog("""
Examples:

  headrace group delete billing audit                   two groups and their offsets
""")
)
def delete(
    groups: GroupsArgument,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Delete groups."""
    with connect(brokers, setting) as pool:
        admin = GroupAdmin(pool)
        outcomes = {group: admin.delete(group) for group in dict.fromkeys(groups)}
    print_rows(
        format,
        ["group", "status"],
        [(group, status(outcome)) for group, outcome in outcomes.items()],
    )
    finish(outcomes.values())
