"""`headrace cluster log-dirs|move-log`: the log directories of brokers."""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_rows
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.cli.terminal.progress import progress
from headrace.client.admin.log_dir_admin import LogDir, LogDirAdmin, ReplicaLog
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition

_POLL_SECONDS = 0.2
_MOST_MISSED = 2


def register(app: typer.Typer) -> None:
    """Add these verbs to `headrace cluster`."""
    for name, (verb, examples) in _VERBS.items():
        app.command(name, epilog=epilog(examples))(verb)


def log_dirs(
    broker: Annotated[
        list[int] | None, typer.Option("--broker", help="Only these brokers, by id.")
    ] = None,
    logs: Annotated[
        bool, typer.Option("--logs", help="Show each log, and how far its move is.")
    ] = False,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Show the log directories of brokers: what lies in each, and the room on its disk."""
    with connect(brokers, setting) as pool:
        found = LogDirAdmin(pool).describe(_chosen(pool, broker))
    if logs:
        headings = ["broker", "directory", "log", "bytes", "lag", "moving"]
        rows = [
            [each.broker, each.path, str(log.partition), log.size_bytes, log.lag, log.moving]
            for each in found
            for log in each.logs
        ]
    else:
        headings = ["broker", "directory", "logs", "bytes", "free", "disk", "error"]
        rows = [
            [
                each.broker,
                each.path,
                len(each.logs),
                sum(log.size_bytes for log in each.logs),
                each.usable_bytes,
                each.total_bytes,
                None if each.error is None else str(each.error),
            ]
            for each in found
        ]
    print_rows(format, headings, rows)


def move_log(
    partition: Annotated[str, typer.Argument(help="The partition, such as orders-0.")],
    directory: Annotated[str, typer.Argument(help="The log directory, as `log-dirs` shows it.")],
    broker: Annotated[
        int, typer.Option("--broker", help="The broker whose replica is moved, by id.")
    ],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return when the log has arrived.")
    ] = True,
    format: FormatOption = OutputFormat.TEXT,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Move the log of one replica to another directory of its broker, while it is used."""
    try:
        name = TopicPartition.parse(partition)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="PARTITION") from error
    with connect(brokers, setting) as pool:
        _chosen(pool, [broker])
        _begin(LogDirAdmin(pool), broker, name, directory)
        if wait:
            _wait(LogDirAdmin(pool), broker, name, directory)
    print_rows(
        format,
        ["partition", "broker", "directory", "status"],
        [[str(name), broker, directory, "moved" if wait else "moving"]],
    )


def _chosen(pool: ConnectionPool, wanted: list[int] | None) -> list[int]:
    known = pool.metadata(()).brokers
    for each in wanted or ():
        if each not in known:
            raise ClientError(f"there is no broker {each}: the cluster has {sorted(known)}")
    return wanted or sorted(known)


def _begin(admin: LogDirAdmin, broker: int, name: TopicPartition, directory: str) -> None:
    found = admin.describe([broker], name)
    if directory not in [each.path for each in found]:
        raise ClientError(
            f"broker {broker} has no log directory {directory}: it has "
            + ", ".join(each.path for each in found)
        )
    # A broker keeps the wish for a replica that it does not have yet; here it is a mistake.
    if not any(log.partition == name for each in found for log in each.logs):
        raise ClientError(f"broker {broker} has no replica of {name}")
    error = admin.move(broker, name, directory)
    if error is not None:
        raise error


def _wait(admin: LogDirAdmin, broker: int, name: TopicPartition, directory: str) -> None:
    size = sum(log.size_bytes for _, log in _places(admin, broker, name) if not log.moving)
    done = missed = 0
    warned = False
    with progress(f"moving {name}", size, unit="bytes") as advance:
        while True:
            places = _places(admin, broker, name)
            arrived = [(place, log) for place, log in places if place.path == directory]
            if arrived and not arrived[0][1].moving:
                return
            # A log that takes its new place just now is shown neither here nor there.
            missed = 0 if arrived else missed + 1
            if missed > _MOST_MISSED:
                raise ClientError(
                    f"the move of {name} to {directory} has ended, and the log is not there: the "
                    f"log of broker {broker} says why"
                )
            for place, log in arrived:
                advance(min(log.size_bytes, size) - done)
                done = min(log.size_bytes, size)
                shortage = shortage_of(place, log, size)
                if shortage is not None and not warned:
                    typer.echo(f"warning: {shortage}", err=True)
                    warned = True
            time.sleep(_POLL_SECONDS)


def shortage_of(place: LogDir, log: ReplicaLog, size_bytes: int) -> str | None:
    """Say why a move cannot end: the rest of the log does not fit on the disk it goes to."""
    left = size_bytes - log.size_bytes
    if place.usable_bytes is None or left <= place.usable_bytes:
        return None
    return (
        f"{log.partition} needs {left} more bytes in {place.path}, and {place.usable_bytes} are "
        f"free: the move goes on when there is room. Ctrl-C ends the waiting, not the move"
    )


def _places(
    admin: LogDirAdmin, broker: int, name: TopicPartition
) -> list[tuple[LogDir, ReplicaLog]]:
    return [
        (each, log)
        for each in admin.describe([broker], name)
        for log in each.logs
        if log.partition == name
    ]


_VERBS: dict[str, tuple[Callable[..., None], str]] = {
    "log-dirs": (
        log_dirs,
        "\nExamples:\n\n  headrace cluster log-dirs\n\n"
        "  headrace cluster log-dirs --broker 1 --logs           with each log in them\n",
    ),
    "move-log": (
        move_log,
        "\nExamples:\n\n  headrace cluster move-log orders-0 /disk2/headrace --broker 1\n\n"
        "  headrace cluster move-log orders-0 /disk2/headrace --broker 1 --no-wait\n",
    ),
}
