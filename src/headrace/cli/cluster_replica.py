"""`headrace cluster brokers|partitions|elect|rebalance|decommission`: replicas and leaders."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_rows, status
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.client.admin.held_partition import check_all_visible, check_empty
from headrace.client.admin.move_wait import MoveWait
from headrace.client.admin.replica_admin import Move, ReplicaAdmin
from headrace.client.admin.replica_plan import (
    ReplicaAssignment,
    absent_replicas,
    current,
    decommission,
    rebalance,
)
from headrace.client.error import ClientError
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition

_SHOWN = 5

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only print what would be moved.")]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Return when the moves are done.")
]
TimeoutOption = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="Wait for so long at most: 90s, 2h. The moves go on. Without it only a broker that "
        "stays away ends the wait.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add these verbs to `headrace cluster`."""
    for verb, examples in _VERBS:
        app.command(verb.__name__.removesuffix("_"), epilog=epilog(examples))(verb)


def brokers_(
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Show the brokers: their addresses, and how many partitions each leads and replicates."""
    with connect(brokers, setting) as pool:
        metadata = pool.metadata()
    partitions = [
        partition for topic in metadata.topics.values() for partition in topic.partitions.values()
    ]
    rows = [
        [
            number,
            str(each.address),
            each.rack,
            number == metadata.controller,
            sum(partition.leader == number for partition in partitions),
            sum(number in partition.replicas for partition in partitions),
            sum(
                number in partition.replicas and number not in partition.in_sync
                for partition in partitions
            ),
        ]
        for number, each in sorted(metadata.brokers.items())
    ]
    headings = ["id", "address", "rack", "controller", "leads", "replicas", "behind"]
    print_rows(format, headings, rows)


def partitions(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Only these topics.")
    ] = None,
    troubled: Annotated[
        bool,
        typer.Option(
            "--troubled", help="Only those without a leader or with replicas out of sync."
        ),
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Show partitions: leader, replicas, in-sync replicas, and moves in progress."""
    with connect(brokers, setting) as pool:
        metadata = pool.metadata(topics or None)
        moves = ReplicaAdmin(pool).moves()
    for name in topics or ():
        if name not in metadata.topics or metadata.topics[name].error is not None:
            raise ClientError(f"there is no topic {name!r} in this cluster")
    rows: list[list[Any]] = []
    for _, topic in sorted(metadata.topics.items()):
        for index, partition in topic.partitions.items():
            if troubled and partition.leader >= 0 and not partition.under_replicated:
                continue
            move = moves.get(topic.partition(index))
            rows.append(
                [
                    topic.name,
                    index,
                    partition.leader if partition.leader >= 0 else None,
                    _list(partition.replicas),
                    _list(partition.in_sync),
                    None if move is None else f"+{_list(move.adding)} -{_list(move.removing)}",
                ]
            )
    print_rows(format, ["topic", "partition", "leader", "replicas", "in-sync", "move"], rows)


def _list(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


def elect(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Only these topics.")
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="Let any replica lead where none does; may lose committed records."
        ),
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Elect the preferred replicas as leaders again."""
    with connect(brokers, setting) as pool:
        chosen = None
        if topics or unclean:
            chosen = _leaderless(pool.metadata(topics or None), every=not unclean)
        outcomes = ReplicaAdmin(pool).elect(chosen, unclean=unclean)
    rows = [[str(each), status(outcome)] for each, outcome in sorted(outcomes.items())]
    print_rows(format, ["partition", "status"], rows)


def _leaderless(metadata: Metadata, *, every: bool) -> list[TopicPartition]:
    return [
        topic.partition(index)
        for topic in metadata.topics.values()
        for index, partition in topic.partitions.items()
        if every or partition.leader < 0
    ]


def rebalance_(
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    timeout: TimeoutOption = None,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Spread replicas and leaders evenly over all brokers, with as few moves as possible."""
    with connect(brokers, setting) as pool:
        metadata, moves = pool.metadata(), ReplicaAdmin(pool).moves()
        left = absent_replicas(metadata, moves)
        if left:
            typer.echo(_left_note(left), err=True)
        waiting = _waiting(pool, wait, timeout)
        _apply(pool, rebalance(metadata, moves), dry_run, waiting, format)
        if wait and not dry_run:
            ReplicaAdmin(pool).elect(None)


def _left_note(left: dict[TopicPartition, int]) -> str:
    names = sorted(left)
    shown = ", ".join(map(str, names[:_SHOWN])) + ", ..." * (len(names) > _SHOWN)
    absent = ", ".join(map(str, sorted(set(left.values()))))
    return (
        f"note: left as they are: {shown} ({len(names)} in all), which have replicas on broker "
        f"{absent}. That is not running, so that its rack is not known. Run the command again when "
        "it is back, or remove it for good with headrace cluster decommission"
    )


def decommission_(
    broker: Annotated[
        int, typer.Argument(metavar="ID", help="The broker to remove; it need not be running.")
    ],
    dry_run: DryRunOption = False,
    wait: WaitOption = True,
    timeout: TimeoutOption = None,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Move all replicas off a broker, so that it can be removed."""
    with connect(brokers, setting) as pool:
        metadata, moves = pool.metadata(), ReplicaAdmin(pool).moves()
        before = current(metadata, moves)
        used = {each for replicas in before.values() for each in replicas}
        if broker not in used | metadata.brokers.keys():
            raise ClientError(
                f"there is no broker {broker}: the cluster has {sorted(metadata.brokers)}"
            )
        check_all_visible(pool, metadata, broker)
        plan = decommission(metadata, broker, moves)
        _apply(pool, plan, dry_run, _waiting(pool, wait, timeout), format)
        if wait and not dry_run:
            check_empty(pool, broker, before)


class _MovingCluster(NamedTuple):
    """The cluster of a pool, for `MoveWait`."""

    pool: ConnectionPool

    def moves(self) -> dict[TopicPartition, Move]:
        return ReplicaAdmin(self.pool).moves()

    def metadata(self) -> Metadata:
        return self.pool.metadata()


def _waiting(pool: ConnectionPool, wait: bool, timeout: str | None) -> MoveWait | None:
    """Return what waits for the moves; None to return at once."""
    if not wait:
        return None
    limit = None if timeout is None else parse_duration(timeout)
    return MoveWait(_MovingCluster(pool), limit_seconds=limit)


def _apply(
    pool: ConnectionPool,
    plan: ReplicaAssignment,
    dry_run: bool,
    waiting: MoveWait | None,
    format: OutputFormat,
) -> None:
    admin = ReplicaAdmin(pool)
    headings = ["partition", "replicas", "status"]
    if dry_run:
        outcomes: dict[TopicPartition, Any] = dict.fromkeys(plan)
    else:
        outcomes = dict(admin.reassign(plan)) if plan else {}
        if waiting is not None:
            waiting.run()
    rows = [
        [str(each), ",".join(map(str, plan[each])), status(outcome) if not dry_run else "planned"]
        for each, outcome in sorted(outcomes.items())
    ]
    print_rows(format, headings, rows)
    if any(outcome is not None for outcome in outcomes.values()):
        raise typer.Exit(1)


_VERBS: list[tuple[Callable[..., None], str]] = [
    (brokers_, "\nExamples:\n\n  headrace cluster brokers\n"),
    (
        partitions,
        "\nExamples:\n\n  headrace cluster partitions orders\n\n"
        "  headrace cluster partitions --troubled\n",
    ),
    (
        elect,
        "\nExamples:\n\n  headrace cluster elect                                "
        "after a broker came back\n\n  headrace cluster elect orders --unclean\n",
    ),
    (
        rebalance_,
        "\nExamples:\n\n  headrace cluster rebalance --dry-run\n\n"
        "  headrace cluster rebalance                            after a broker was added\n",
    ),
    (
        decommission_,
        "\nExamples:\n\n  headrace cluster decommission 3                       "
        "then stop broker 3\n",
    ),
]
