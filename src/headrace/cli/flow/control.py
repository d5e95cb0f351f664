"""Commands that change a running flow: `stop`, `restart`, `rebalance`, `activate`, `deactivate`."""

from typing import Annotated

import typer

from headrace.cli.flow.flow_lookup import find_flow
from headrace.cli.terminal.option import BrokersOption, SettingsOption
from headrace.cli.terminal.pair import parse_pairs
from headrace.model.error import ConfigError

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A flow's name, its pid, or Spark's application.")
]

REBALANCE = """
Examples:

  headrace flow rebalance word-count -e split=4          four tasks for the bolt split

  headrace flow rebalance word-count -n 8                eight partitions between stages

A component with state keeps its number of tasks: that is part of the checkpoint.
"""


def stop(
    name: NameArgument,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for the current batch.")] = False,
    brokers: BrokersOption = None,
    settings: SettingsOption = None,
) -> None:
    """Stop a flow; a later run from its checkpoint continues where it stopped."""
    flow = find_flow(name, brokers, settings)
    flow.stop(now=now)
    print(f"{flow.run.name} is stopped.")


def restart(
    name: NameArgument, brokers: BrokersOption = None, settings: SettingsOption = None
) -> None:
    """Stop a flow's query after the current batch, and start it again from its checkpoint.

    The process, its Spark session and its figures stay.
    """
    flow = find_flow(name, brokers, settings)
    flow.restart()
    print(f"{flow.run.name} is restarted.")


def activate(
    name: NameArgument, brokers: BrokersOption = None, settings: SettingsOption = None
) -> None:
    """Let a flow that was deactivated read again, from where it stopped."""
    flow = find_flow(name, brokers, settings)
    flow.activate()
    print(f"{flow.run.name} is active.")


def deactivate(
    name: NameArgument, brokers: BrokersOption = None, settings: SettingsOption = None
) -> None:
    """Let a flow read nothing after the current batch, until it is activated.

    The process and the state stay. The flow is still inactive when it is run again.
    """
    flow = find_flow(name, brokers, settings)
    flow.deactivate()
    print(f"{flow.run.name} is inactive.")


def rebalance(
    name: NameArgument,
    tasks: Annotated[
        list[str] | None, typer.Option("-e", metavar="COMPONENT=N", help="Tasks of a component.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("-n", "--partitions", min=1, help="Partitions between stages.")
    ] = None,
    brokers: BrokersOption = None,
    settings: SettingsOption = None,
) -> None:
    """Change how many tasks a running flow has: it stops after a batch and continues with them."""
    parallelism = {}
    for component, text in parse_pairs(tasks, "-e").items():
        if not text.isdigit():
            raise ConfigError(f"-e {component} cannot be {text!r}: write a number")
        parallelism[component] = int(text)
    if not parallelism and partitions is None:
        raise ConfigError("nothing to change: give -e component=N or -n N")
    flow = find_flow(name, brokers, settings)
    flow.rebalance(parallelism, partitions)
    print(f"{flow.run.name} is rebalanced.")
