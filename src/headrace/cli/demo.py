"""`headrace demo`: the whole way in miniature."""

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

  headrace demo --for 30s            thirty seconds, then check every answer

  headrace demo --headless --for 1m  without the live table, for scripts

A bounded run ends with exit 0 when the flows' answers are those of the simulator, and 1 when not.
"""
_SHOWN = 5


@command.command(epilog=epilog(_EXAMPLES))
def demo(
    duration: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after 30s, 2m or 1h.")
    ] = None,
    rate: Annotated[float, typer.Option(min=1, max=20_000, help="Page views a second.")] = 500,
    window: Annotated[int, typer.Option(min=1, help="Length of the window, in seconds.")] = 20,
    slide: Annotated[int, typer.Option(min=1, help="It rolls on by so many seconds.")] = 5,
    seed: Annotated[int, typer.Option(help="Another seed, another life of the site.")] = 7,
    headless: Annotated[
        bool, typer.Option("--headless", help="Plain lines instead of the live table.")
    ] = False,
) -> None:
    """Run a website's activity through everything: broker, agent, Spark flows, Parquet files."""
    seconds = None if duration is None else parse_duration(duration)
    for needed in ("confluent_kafka", "pyspark", "starlette", "uvicorn"):
        if importlib.util.find_spec(needed) is None:
            raise ConfigError(f"the demo needs {needed}: pip install 'headrace[all]'")
    from rich.console import Console

    from headrace.demo.demo_run import run_demo
    from headrace.demo.rolling_window import RollingWindow

    console = Console(highlight=False)
    with Stop() as stop:
        verdict = run_demo(
            per_second=rate,
            window=RollingWindow(window * 1_000, slide * 1_000),
            seconds=seconds,
            seed=seed,
            headless=headless or not console.is_terminal,
            stopped=lambda: stop.requested,
            waiting=stop.waiting,
            console=console,
        )
    if verdict is None:
        print("Stopped.")
        return
    if not verdict.right:
        _complain(verdict)
        raise typer.Exit(1)
    answers = ", ".join(f"{check.answers:,} of {name}" for name, check in verdict.checks.items())
    print(f"Right: {verdict.views:,} views, and all answers: {answers}.")


def _complain(verdict: "DemoResult") -> None:
    for name, check in verdict.checks.items():
        print(f"{name}: {len(check.wrong):,} of {check.answers:,} answers are wrong")
        for key, (found, right) in sorted(check.wrong.items(), key=str)[:_SHOWN]:
            about = ", ".join(map(str, key))
            print(f"  {about}: found {found}, right would be {right}")
