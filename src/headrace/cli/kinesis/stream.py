"""`headrace kinesis stream`: the streams of a cluster, read and changed through its topics."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.terminal.log_choice import configure_logging
from headrace.cli.terminal.option import BrokersOption, SettingsOption, connect
from headrace.cli.terminal.output import print_json, print_rows
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.model.error import ConfigError, HeadraceError

if TYPE_CHECKING:
    from headrace.gateway.kinesis.service import KinesisService
    from headrace.gateway.kinesis.stream.stream_state import StreamState

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="STREAM")]
_SETTLE_SECONDS: Final = 60.0
_STREAM: Final = ("name", "status", "mode", "open_shards", "shards", "retention_hours")
_SHARD: Final = ("shard", "state", "partition", "parents", "first", "last", "share")


@contextmanager
def read_streams(brokers: str | None, setting: list[str] | None) -> "Iterator[KinesisService]":
    """Follow the streams and channels of a cluster without serving them."""
    try:
        from headrace.gateway.kinesis.service import KinesisService
        from headrace.gateway.kinesis.settings import KinesisSettings
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the gateway needs {error.name}: pip install 'headrace[kinesis]'"
        ) from error
    configure_logging("error", "text")
    with connect(brokers, setting) as pool:
        client = pool.settings
    service = KinesisService(KinesisSettings(client=client))
    service.start()
    try:
        yield service
    finally:
        service.stop()


@app.command("list")
def list_streams(
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """List all streams."""
    with read_streams(brokers, setting) as service:
        streams = sorted(service.store.streams.values(), key=lambda each: each.name)
        print_rows(style, _STREAM, [_stream_row(each) for each in streams])


@app.command()
def describe(
    name: NameArgument,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show a stream's shards: open and closed, their parents and their share of all keys."""
    with read_streams(brokers, setting) as service:
        stream = service.stream({"StreamName": name})
        if style is OutputFormat.JSON:
            print_json(stream.as_json())
        else:
            print_rows(style, _SHARD, [_shard_row(each) for each in stream.shards])


@app.command()
def split(
    name: NameArgument,
    shard: Annotated[str, typer.Argument(metavar="SHARD-ID")],
    at: Annotated[
        str | None, typer.Option(metavar="HASH-KEY", help="Where; by default in the middle.")
    ] = None,
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Split a shard in two."""
    from headrace.gateway.kinesis.operation.get import named_shard
    from headrace.gateway.kinesis.operation.shard import split_shard

    with read_streams(brokers, setting) as service:
        keys = named_shard(service, service.stream({"StreamName": name}), shard).keys
        middle = (keys.start + keys.end + 1) // 2
        if at is not None and not (at.isascii() and at.isdigit() and len(at) < 40):
            raise ConfigError(f"--at is {at!r}: a hash key is a decimal number")
        request = {
            "StreamName": name,
            "ShardToSplit": shard,
            "NewStartingHashKey": str(middle) if at is None else at,
        }
        _change(service, name, lambda: split_shard(service, request))


@app.command()
def merge(
    name: NameArgument,
    shard: Annotated[str, typer.Argument(metavar="SHARD-ID")],
    adjacent: Annotated[str, typer.Argument(metavar="ADJACENT-SHARD-ID")],
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
) -> None:
    """Merge two shards whose hash ranges touch."""
    from headrace.gateway.kinesis.operation.shard import merge_shards

    request = {"StreamName": name, "ShardToMerge": shard, "AdjacentShardToMerge": adjacent}
    with read_streams(brokers, setting) as service:
        _change(service, name, lambda: merge_shards(service, request))


def _change(service: "KinesisService", name: str, change: Callable[[], Any]) -> None:
    """Make a change, wait until it is finished, and show the open shards."""
    change()
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not (stream := service.stream({"StreamName": name})).is_settled:
        if time.monotonic() > deadline:
            raise HeadraceError(f"{name} is still {stream.status}: a gateway will finish it")
        service.store.tail.wait(0.2)
    print_rows(OutputFormat.TEXT, _SHARD, [_shard_row(each) for each in stream.open_shards])


def _stream_row(stream: "StreamState") -> list[Any]:
    return [
        stream.name,
        stream.status.value,
        stream.mode.value,
        len(stream.open_shards),
        len(stream.shards),
        stream.retention_hours,
    ]


def _shard_row(shard: Any) -> list[Any]:
    share = (shard.keys.end - shard.keys.start + 1) / 2**128
    return [
        shard.id,
        "open" if shard.is_open else "closed",
        shard.partition,
        shard.parents,
        shard.first,
        shard.last,
        f"{100 * share:.4g}%",
    ]
