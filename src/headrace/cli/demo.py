"""`headrace demo`: a website's activity through broker, agent, Spark flows and files."""

import importlib.util
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.terminal.duration import parse_duration
from headrace.cli.terminal.epilog import epilog
from headrace.cli.terminal.stop import Stop
from headrace.model.error import ConfigError

if TYPE_CHECKING:
    from headrace.demo.expected_answers import DemoResult

command = typer.Typer(add_completion=False, rich_markup_mode=None)

_EXAMPLES = """
Examples:

  headrace demo                      until Ctrl-C

  headrace demo --for 30s            thirty seconds, then check every result

  headrace demo --headless --for 1m  without the live table, for scripts

With --for the exit code is 0 if the flows' results are those of the simulator, and 1 if not.
"""
_SHOWN = 5


@command.command(epilog=epilog(_EXAMPLES))
def demo(
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=20_000, help="Page views per second.")] = 500,
    window: Annotated[int, typer.Option(min=1, help="Length of the window, in seconds.")] = 20,
    slide: Annotated[int, typer.Option(min=1, help="Seconds by which the window slides.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the simulated website.")] = 7,
    headless: Annotated[
        bool, typer.Option("--headless", help="Plain lines instead of the live table.")
    ] = False,
) -> None:
    """Send a website's activity through a broker, an agent, Spark flows and Parquet files."""
    seconds = None if duration is None else parse_duration(duration)
    for package in ("confluent_kafka", "pyspark", "starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"the demo needs {package}: pip install 'headrace[all]'")
    from rich.console import Console

    from headrace.demo.demo_run import run_demo
    from headrace.demo.rolling_window import RollingWindow

    console = Console(highlight=False)
    with Stop() as stop:
        result = run_demo(
            per_second=rate,
            window=RollingWindow(window * 1_000, slide * 1_000),
            seconds=seconds,
            seed=seed,
            headless=headless or not console.is_terminal,
            stopped=lambda: stop.requested,
            waiting=stop.waiting,
            console=console,
        )
    if result is None:
        print("Stopped.")
        return
    if not result.right:
        _print_wrong(result)
        raise typer.Exit(1)
    answers = ", ".join(f"{check.answers:,} of {name}" for name, check in result.checks.items())
    print(f"Right: {result.views:,} views, and all results: {answers}.")


def _print_wrong(result: "DemoResult") -> None:
    for name, check in result.checks.items():
        print(f"{name}: {len(check.wrong):,} of {check.answers:,} results are wrong")
        for key, (actual, expected) in sorted(check.wrong.items(), key=str)[:_SHOWN]:
            about = ", ".join(map(str, key))
            print(f"  {about}: {actual} instead of {expected}")
