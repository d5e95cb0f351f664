"""`headrace group`: look at consumer groups and move their offsets."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from headrace.cli.record.offset_spec import Origin, Place, parse_place, resolve
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
from headrace.cli.terminal.output_format import Format, FormatOption
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
    format: FormatOption = Format.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """List groups."""
    with connect(brokers, setting) as pool:
        found = GroupAdmin(pool).list_groups(state or ())
    print_rows(
        format,
        ["broker", "group", "state", "type"],
        [(each.broker, each.group, each.state, each.type or each.protocol_type) for each in found],
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
    format: FormatOption = Format.TEXT,
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
    if format is Format.JSON:
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
    wanted = sorted({*committed, *owners})
    ends = extents(pool, wanted)
    rows = []
    for each in wanted:
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
    """A group that has not committed yet lags behind by all there is."""
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

  headrace group seek billing --to start                everything again

  headrace group seek billing --to end --topics clicks  skip what is left of one topic

  headrace group seek billing --to @2026-07-01T12:00Z   back to a time, in all its topics

  headrace group seek billing --to -100                 the last hundred of each partition again

  headrace group seek billing --to 47 --topics clicks -p 2

  headrace group seek new-billing --to-group billing    go on where another group is

The group must have no members at that moment. Without --topics it is every topic in which the
group has committed. PLACE is start, end, an offset, +N past the start, -N before the end, or @TIME.
""")
)
def seek(
    group: GroupArgument,
    to: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="Where to go on reading.")
    ] = None,
    to_group: Annotated[
        str | None, typer.Option("--to-group", metavar="GROUP", help="Where another group is.")
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", metavar="TOPIC,...", help="Only these topics; new ones too."),
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("-p", "--partition", min=0, help="Only these partitions.")
    ] = None,
    format: FormatOption = Format.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Move the offsets of a group."""
    if (to is None) == (to_group is None):
        raise InvalidArgument("say where to: either --to PLACE or --to-group GROUP")
    place = None if to is None else parse_place(to, SystemClock())
    names = split_names(topics)
    with connect(brokers, setting) as pool:
        admin = GroupAdmin(pool)
        before = admin.offsets(group)
        if place is not None:
            found = _targets(pool, place, group, before, names, partition)
        else:
            assert to_group is not None
            found = _offsets_of(admin, to_group, names, partition)
        targets = {each: at for each, at in found.items() if isinstance(at, int)}
        outcomes: dict[TopicPartition, Any] = {
            each: at for each, at in found.items() if isinstance(at, ClientError)
        } | admin.commit(group, targets)
    rows = [
        (each.topic, each.partition, before.get(each), targets.get(each), status(outcomes[each]))
        for each in sorted(outcomes)
    ]
    print_rows(format, ["topic", "partition", "prior_offset", "current_offset", "status"], rows)
    finish(outcomes.values())


def split_names(options: list[str] | None) -> list[str]:
    """Names given one by one, or with commas between them."""
    return [name.strip() for each in options or () for name in each.split(",") if name.strip()]


def _targets(
    pool: ConnectionPool,
    place: Place,
    group: str,
    before: Mapping[TopicPartition, int],
    names: list[str],
    only: list[int] | None,
) -> dict[TopicPartition, int | ClientError]:
    topics = names or sorted({each.topic for each in before})
    if not topics:
        raise ClientError(f"group {group} has committed nothing yet: name its topics with --topics")
    partitions = chosen_partitions(pool, topics, only)
    found = resolve(pool, place, partitions)
    if place.origin is not Origin.OFFSET:
        return found
    ends = extents(pool, partitions)
    for each in partitions:
        extent = ends[each]
        if isinstance(extent, ClientError):
            found[each] = extent
        elif not extent.start <= place.number <= extent.end:
            found[each] = ClientError(
                f"offset {place.number} lies outside {extent.start} to {extent.end} "
                "(a time is written as @TIME)"
            )
    return found


def _offsets_of(
    admin: GroupAdmin, group: str, names: list[str], only: list[int] | None
) -> dict[TopicPartition, int | ClientError]:
    found: dict[TopicPartition, int | ClientError] = {
        each: offset
        for each, offset in admin.offsets(group).items()
        if (not names or each.topic in names) and (not only or each.partition in only)
    }
    if not found:
        raise ClientError(f"group {group} has committed nothing there")
    return found


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
        typer.Option("-t", "--topics", metavar="TOPIC[:PARTITION,...]", help="What to forget."),
    ],
    format: FormatOption = Format.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Forget committed offsets of topics the group no longer reads."""
    named = dict(_parse_partitions(each) for each in topics)
    with connect(brokers, setting) as pool:
        admin = GroupAdmin(pool)
        committed = admin.offsets(group)
        wanted: list[TopicPartition] = []
        for topic, indexes in named.items():
            if indexes is None:
                indexes = [each.partition for each in committed if each.topic == topic]
            if not indexes:
                raise ClientError(f"group {group} has committed nothing in topic {topic}")
            wanted += [TopicPartition(topic, index) for index in indexes]
        outcomes = admin.delete_offsets(group, wanted)
    print_rows(
        format,
        ["topic", "partition", "status"],
        [(each.topic, each.partition, status(outcomes[each])) for each in sorted(outcomes)],
    )
    finish(outcomes.values())


def _parse_partitions(text: str) -> tuple[str, list[int] | None]:
    """A topic and some of its partitions, or None for all that were committed."""
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

  headrace group delete billing audit                   groups without members, and their offsets
""")
)
def delete(
    groups: GroupsArgument,
    format: FormatOption = Format.TEXT,
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
