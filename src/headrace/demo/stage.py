"""Everything the demo runs, put up in order and taken down in the reverse order."""

import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.client.admin import Admin, NewTopic
from headrace.client.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.demo.broker_child import BrokerChild
from headrace.demo.feed import Feed
from headrace.demo.ledger import Ledger, Verdict
from headrace.demo.muted import stderr_to
from headrace.demo.page_count import start_page_count
from headrace.demo.pulse import Pulse
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.scoreboard import Scoreboard
from headrace.demo.site import Site
from headrace.model.error import HeadraceError

VIEWS = "page-views"
COUNTS = "page-counts"
PARTITIONS = 2

_POLL_SECONDS = 0.05
_CATCH_UP_SECONDS = 60.0

Say = Callable[[str], object]


class DemoFailed(HeadraceError):
    """A part of the demo gave up."""


@dataclass(slots=True)
class Stage:
    """The running parts."""

    address: str
    window: RollingWindow
    ledger: Ledger
    feed: Feed
    scoreboard: Scoreboard
    query: Any
    born: float

    def check(self) -> None:
        """Raise what a part has died of.

        Raises:
            DemoFailed: the site cannot write, or the stream has ended.
        """
        if self.feed.problem is not None:
            raise DemoFailed(f"the site could not write its views: {self.feed.problem}")
        failure = self.query.exception()
        if failure is not None:
            raise DemoFailed(f"the Spark stream ended: {failure}")

    def pulse(self, seconds_left: float | None = None) -> Pulse:
        progress = self.query.lastProgress
        newest = self.window.newest_full(time.time_ns() // 1_000_000)
        starts = {start for _, start in self.scoreboard.counts()}
        shown = max((start for start in starts if start <= newest), default=0)
        before = shown - self.window.length_ms
        # Windows that began before the site opened hold less, and would make every page rise.
        whole = min(starts, default=0) + self.window.length_ms
        return Pulse(
            address=self.address,
            running_seconds=time.monotonic() - self.born,
            written=self.ledger.views,
            counted=self.counted(),
            batch_ms=None if progress is None else int(progress["batchDuration"]),
            window_seconds=self.window.length_ms // 1_000,
            seconds_left=seconds_left,
            pages=self.scoreboard.of_window(shown),
            before=self.scoreboard.of_window(before) if before >= whole else Counter(),
        )

    def counted(self) -> int:
        """How many views lie before the place that the stream has read up to."""
        progress = self.query.lastProgress
        ends = _offsets(progress["sources"][0]["endOffset"]) if progress else {}
        return sum(ends.get(VIEWS, {}).values())

    def finish(self) -> Verdict:
        """Stop the site, let the stream catch up, and hold its counts against the truth."""
        self.feed.stop()
        self.check()
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        verdict = self.ledger.verdict(self.scoreboard.counts())
        while not verdict.right and time.monotonic() < deadline:
            self.check()
            time.sleep(_POLL_SECONDS)
            verdict = self.ledger.verdict(self.scoreboard.counts())
        return verdict


@contextmanager
def put_up(*, seed: int, per_second: float, window: RollingWindow, say: Say) -> Iterator[Stage]:
    """Start broker, site and stream; leave nothing running and no file behind."""
    with ExitStack() as parts:
        folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        parts.callback(shutil.rmtree, folder, ignore_errors=True)
        say("Starting a broker ...")
        broker = parts.enter_context(BrokerChild(folder))
        say(f"The broker listens on {broker.address}. Starting Spark ...")
        _create_topics(broker.address)
        ledger = Ledger(window)
        site = Site(seed=seed, per_second=per_second)
        feed = Feed(address=broker.address, topic=VIEWS, site=site, ledger=ledger)
        parts.callback(feed.stop)
        with stderr_to(folder / "spark.log"):
            spark = _session(folder)
        parts.callback(spark.stop)
        board = Scoreboard(address=broker.address, topic=COUNTS, partitions=PARTITIONS)
        parts.callback(board.stop)
        query = start_page_count(
            spark,
            address=broker.address,
            views=VIEWS,
            counts=COUNTS,
            window=window,
            checkpoint=folder / "checkpoint",
        )
        parts.callback(query.stop)
        say("Everything runs.")
        board.start()
        feed.start()
        yield Stage(broker.address, window, ledger, feed, board, query, time.monotonic())


def _session(folder: Path) -> Any:
    from headrace.spark.ready_session import session

    handler = signal.getsignal(signal.SIGINT)
    try:
        return _start(session, folder)
    finally:
        # Spark puts a handler of its own there, which would raise in the middle of a call to Java.
        signal.signal(signal.SIGINT, handler)


def _start(session: Callable[..., Any], folder: Path) -> Any:
    return session(
        "headrace demo",
        master="local[2]",
        config={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
            # Spark matches the message of an interrupted batch with a deep regular expression.
            "spark.driver.extraJavaOptions": "-Xss16m",
        },
    )


def _create_topics(address: str) -> None:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": address})) as pool:
        outcomes = Admin(pool).create_topics(
            [NewTopic(each, PARTITIONS) for each in (VIEWS, COUNTS)]
        )
        for error in outcomes.values():
            if error is not None:
                raise error


def _offsets(end: Any) -> dict[str, dict[str, int]]:
    """Progress gives them as JSON text or as what it says, depending on the source."""
    found: dict[str, dict[str, int]] = json.loads(end) if isinstance(end, str) else end
    return found or {}
