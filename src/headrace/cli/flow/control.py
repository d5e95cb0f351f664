"""Commands that change a running flow: `stop`, `restart`, `rebalance`, `activate`, `deactivate`."""

import time
from typing import Annotated

import typer

from headrace.cli.terminal.pair import parse_pairs
from headrace.flow.error import FlowError
from headrace.flow.monitoring.run_folder import RunFolder
from headrace.model.error import ConfigError

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A flow's name, or its pid.")]

REBALANCE = """
Examples:

  headrace flow rebalance word-count -e split=4          four tasks for the bolt split

  headrace flow rebalance word-count -n 8                eight partitions between stages

A component with state keeps its number of tasks: that is part of the checkpoint.
"""
_STOP_SECONDS = 90.0
_POLL_SECONDS = 0.1


def stop(
    name: NameArgument,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for the current batch.")] = False,
) -> None:
    """Stop a flow; a later run from its checkpoint continues where it stopped."""
    run_folder = RunFolder()
    flow = run_folder.find(name)
    run_folder.stop(flow, now=now)
    deadline = time.monotonic() + _STOP_SECONDS
    while flow.alive:
        if time.monotonic() > deadline:
            raise FlowError(f"{flow.name} (pid {flow.pid}) did not stop in {_STOP_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
    print(f"{flow.name} is stopped.")


def restart(name: NameArgument) -> None:
    """Stop a flow's query after the current batch, and start it again from its checkpoint.

    The process, its Spark session and its figures stay.
    """
    run_folder = RunFolder()
    flow = run_folder.find(name)
    run_folder.restart(flow)
    print(f"{flow.name} is restarted.")


def activate(name: NameArgument) -> None:
    """Let a flow that was deactivated read again, from where it stopped."""
    run_folder = RunFolder()
    flow = run_folder.find(name)
    run_folder.activate(flow)
    print(f"{flow.name} is active.")


def deactivate(name: NameArgument) -> None:
    """Let a flow read nothing after the current batch, until it is activated.

    The process and the state stay. The flow is still inactive when it is run again.
    """
    run_folder = RunFolder()
    flow = run_folder.find(name)
    run_folder.deactivate(flow)
    print(f"{flow.name} is inactive.")


def rebalance(
    name: NameArgument,
    tasks: Annotated[
        list[str] | None, typer.Option("-e", metavar="COMPONENT=N", help="Tasks of a component.")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("-n", "--partitions", min=1, help="Partitions between stages.")
    ] = None,
) -> None:
    """Change how many tasks a running flow has: it stops after a batch and continues with them."""
    parallelism = {}
    for component, text in parse_pairs(tasks, "-e").items():
        if not text.isdigit():
            raise ConfigError(f"-e {component} cannot be {text!r}: write a number")
        parallelism[component] = int(text)
    if not parallelism and partitions is None:
        raise ConfigError("nothing to change: give -e component=N or -n N")
    run_folder = RunFolder()
    flow = run_folder.find(name)
    run_folder.rebalance(flow, parallelism, partitions)
    print(f"{flow.name} is rebalanced.")
