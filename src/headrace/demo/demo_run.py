"""Runs the demo until it is stopped, or for a while with a check of all answers at the end."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console
from rich.live import Live

from headrace.demo.dashboard import dashboard
from headrace.demo.demo_status import DemoStatus
from headrace.demo.demo_system import Waiting, start_demo_system
from headrace.demo.expected_answers import DemoResult
from headrace.demo.rolling_window import RollingWindow

_REFRESH_SECONDS = 0.25
_LINE_SECONDS = 5.0


def run_demo(
    *,
    per_second: float,
    window: RollingWindow,
    seconds: float | None,
    seed: int,
    headless: bool,
    stopped: Callable[[], bool],
    waiting: Waiting,
    console: Console,
) -> DemoResult | None:
    """Run the demo, and return the result of a bounded run that was not stopped before its end.

    Args:
        seconds: how long the site is open; None: until `stopped`.
        headless: print a line every few seconds instead of the live table.
        stopped: called several times per second.
        waiting: entered around waits that a signal may interrupt while the demo starts.
    """
    say = console.print
    with start_demo_system(
        seed=seed, per_second=per_second, window=window, say=say, waiting=waiting
    ) as system:
        deadline = None if seconds is None else time.monotonic() + seconds
        screen: AbstractContextManager[Any] = (
            nullcontext() if headless else Live(console=console, auto_refresh=False)
        )
        with screen as live:
            line_at = time.monotonic() + _LINE_SECONDS
            started = False
            while not stopped() and (deadline is None or time.monotonic() < deadline):
                system.check()
                if not started and system.start_next_flow():
                    started = True
                    if live is None:
                        console.print("Everything runs.")
                left = None if deadline is None else deadline - time.monotonic()
                if live is not None:
                    width, height = console.size
                    picture = dashboard(system.status(left), width=width, height=height)
                    live.update(picture, refresh=True)
                elif time.monotonic() >= line_at:
                    console.print(_line(system.status(left)))
                    line_at += _LINE_SECONDS
                time.sleep(_REFRESH_SECONDS)
        if stopped() or deadline is None:
            console.print("Stopping ...")
            return None
        console.print("The site is closed. Letting the streams catch up ...")
        return system.finish()


def _line(status: DemoStatus) -> str:
    top = ", ".join(f"{page} {views}" for page, views in status.trend.pages.most_common(3))
    shown = f"; in the last {status.window_seconds} s: {top}" if top else ""
    alerts = f"; {len(status.alerts)} alerts" if status.alerts else ""
    counted = status.flows[0].read if status.flows else 0
    return f"{status.written:,} views written, {counted:,} counted{shown}{alerts}"
