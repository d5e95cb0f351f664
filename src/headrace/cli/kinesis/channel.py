"""`headrace kinesis channel`: the channels of a cluster, read from its topics."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headrace.cli.kinesis.stream import read_streams
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.option import BrokersOption, SettingsOption
from headrace.cli.terminal.output import print_json, print_rows
from headrace.cli.terminal.output_format import FormatOption, OutputFormat
from headrace.model.error import HeadraceError

if TYPE_CHECKING:
    from headrace.gateway.kinesis.channel.channel_state import ChannelState

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)

_CHANNEL: Final = ("name", "status", "stream", "bucket", "format", "freshness_seconds", "landings")
_FIELD: Final = ("field", "value")

_LIST_EXAMPLES: Final = """
Examples:

  headrace kinesis channel list

  headrace kinesis channel list -b kafka-1:9092 --format json
"""
_DESCRIBE_EXAMPLES: Final = """
Examples:

  headrace kinesis channel describe clicks-to-lake

  headrace kinesis channel describe clicks-to-lake --format json
"""


@app.command("list", epilog=epilog(_LIST_EXAMPLES))
def list_channels(
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """List all channels."""
    with read_streams(brokers, setting) as service:
        channels = sorted(service.channels.channels.values(), key=lambda each: each.name)
        print_rows(style, _CHANNEL, [_row(each) for each in channels])


@app.command(epilog=epilog(_DESCRIBE_EXAMPLES))
def describe(
    name: Annotated[str, typer.Argument(metavar="CHANNEL")],
    brokers: BrokersOption = None,
    setting: SettingsOption = None,
    style: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show a channel: its settings, who lands it, and the next offset of each shard."""
    with read_streams(brokers, setting) as service:
        channel = service.channels.channels.get(name)
        if channel is None:
            raise HeadraceError(f"there is no channel {name}: `headrace kinesis channel list`")
        if style is OutputFormat.JSON:
            print_json(channel.as_json())
        else:
            print_rows(style, _FIELD, [list(each) for each in channel.as_json().items()])


def _row(channel: "ChannelState") -> list[Any]:
    return [
        channel.name,
        channel.status.value,
        channel.stream,
        channel.buckets[0],
        channel.record_format.value,
        channel.freshness_seconds,
        channel.landed,
    ]
