"""Running the demo: until somebody stops it, or for a while with a check at the end."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console
from rich.live import Live

from headrace.demo.dashboard import dashboard
from headrace.demo.ledger import Verdict
from headrace.demo.pulse import Pulse
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.stage import Waiting, put_up

_REFRESH_SECONDS = 0.25
_LINE_SECONDS = 5.0


def perform(
    *,
    per_second: float,
    window: RollingWindow,
    seconds: float | None,
    seed: int,
    headless: bool,
    stopped: Callable[[], bool],
    waiting: Waiting,
    console: Console,
) -> Verdict | None:
    """Run it; the verdict of a bounded run that was not stopped before its end.

    Args:
        seconds: how long the site is open; None: until `stopped`.
        stopped: asked several times a second.
        waiting: around what may be cut off while it starts.
        headless: a line now and then instead of the live table.
    """
    say = console.print
    with put_up(seed=seed, per_second=per_second, window=window, say=say, waiting=waiting) as stage:
        deadline = None if seconds is None else time.monotonic() + seconds
        screen: AbstractContextManager[Any] = (
            nullcontext() if headless else Live(console=console, auto_refresh=False)
        )
        with screen as live:
            line_at = time.monotonic() + _LINE_SECONDS
            started = False
            while not stopped() and (deadline is None or time.monotonic() < deadline):
                stage.check()
                if not started and stage.advance():
                    started = True
                    if live is None:
                        console.print("Everything runs.")
                left = None if deadline is None else deadline - time.monotonic()
                if live is not None:
                    width, height = console.size
                    picture = dashboard(stage.pulse(left), width=width, height=height)
                    live.update(picture, refresh=True)
                elif time.monotonic() >= line_at:
                    console.print(_line(stage.pulse(left)))
                    line_at += _LINE_SECONDS
                time.sleep(_REFRESH_SECONDS)
        if stopped() or deadline is None:
            console.print("Stopping ...")
            return None
        console.print("The site is closed. Letting the streams catch up ...")
        return stage.finish()


def _line(pulse: Pulse) -> str:
    top = ", ".join(f"{page} {views}" for page, views in pulse.trend.pages.most_common(3))
    shown = f"; in the last {pulse.window_seconds} s: {top}" if top else ""
    alerts = f"; {len(pulse.alerts)} alerts" if pulse.alerts else ""
    counted = pulse.flows[0].read if pulse.flows else 0
    return f"{pulse.written:,} views written, {counted:,} counted{shown}{alerts}"
