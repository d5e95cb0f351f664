"""Everything the demo runs, put up in order and taken down in the reverse order."""

import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.demo.access_log import AccessLog
from headrace.demo.access_topology import ALERT_FAILURES, ALERT_MS, access_plan
from headrace.demo.access_topology import NAME as ACCESS_PLAN
from headrace.demo.agent_config import NAME, write_agent_config
from headrace.demo.child import Child
from headrace.demo.feed import Feed
from headrace.demo.landing import landed_rows, start_landing
from headrace.demo.ledger import LANDED, Ledger, Verdict, landed
from headrace.demo.muted import stderr_to
from headrace.demo.page_count import start_page_count
from headrace.demo.profile_topology import NAME as PROFILE_PLAN
from headrace.demo.profile_topology import profile_plan
from headrace.demo.pulse import Alert, FlowPulse, Pulse
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.scoreboard import Scoreboard
from headrace.demo.site import Site
from headrace.demo.topic import ALERTS, COUNTRIES, COUNTS, VIEWS, create_topics
from headrace.flow.metrics_server import MetricsServer
from headrace.model.error import HeadraceError

_POLL_SECONDS = 0.25
_CATCH_UP_SECONDS = 120.0
# Two cores carry four queries: those that nobody waits for take turns.
_UNHURRIED = {"processingTime": "3 seconds"}
_LISTENS = rb"listens on .*?(127\.0\.0\.1:\d+)"

Say = Callable[[str], object]
Metrics = Mapping[str, MetricsServer]


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
    agent: Child
    console: str
    flows: Iterator[Any]
    parquet: Path
    born: float
    queries: list[Any] = field(default_factory=list)

    def advance(self) -> bool:
        """Start the next flow once those before it have done a batch; whether all are started.

        Each begins with several Python workers, and Spark gives up one that is not there after ten
        seconds: on a small machine they must not all start at once.
        """
        if any(query.lastProgress is None for query in self.queries):
            return False
        query = next(self.flows, None)
        if query is None:
            return True
        self.queries.append(query)
        return False

    def stop_flows(self) -> None:
        for query in self.queries:
            query.stop()

    def check(self) -> None:
        """Raise what a part has died of.

        Raises:
            DemoFailed: the site cannot write, or a stream has ended.
            ChildFailed: the agent has.
        """
        if self.feed.problem is not None:
            raise DemoFailed(f"the site could not write its views: {self.feed.problem}")
        self.agent.check()
        for query in self.queries:
            failure = query.exception()
            if failure is not None:
                raise DemoFailed(f"the Spark stream {query.name} ended: {failure}")

    def pulse(self, seconds_left: float | None = None) -> Pulse:
        newest = self.window.newest_full(time.time_ns() // 1_000_000)
        starts = self.scoreboard.starts(COUNTS)
        shown = max((start for start in starts if start <= newest), default=0)
        before = shown - self.window.length_ms
        # Windows that began before the site opened hold less, and would make every page rise.
        whole = min(starts, default=0) + self.window.length_ms
        alerts = self.scoreboard.answers()[ALERTS]
        return Pulse(
            address=self.address,
            running_seconds=time.monotonic() - self.born,
            written=self.ledger.views,
            console=self.console,
            window_seconds=self.window.length_ms // 1_000,
            flows=tuple(_flow(query) for query in self.queries),
            seconds_left=seconds_left,
            pages=self.scoreboard.totals(COUNTS, shown),
            before=self.scoreboard.totals(COUNTS, before) if before >= whole else Counter(),
            countries=self.scoreboard.totals(COUNTRIES),
            alerts=tuple(
                Alert(str(page), int(at_ms))
                for page, at_ms in sorted(alerts, key=lambda key: int(key[1]))
            ),
        )

    def finish(self) -> Verdict:
        """Stop the site, let the streams catch up, and hold their answers against the truth."""
        self.feed.stop()
        self.check()
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        verdict = self._verdict()
        while not (self.advance() and verdict.right) and time.monotonic() < deadline:
            self.check()
            time.sleep(_POLL_SECONDS)
            verdict = self._verdict()
        return verdict

    def _verdict(self) -> Verdict:
        rows = landed_rows(self.parquet)
        return self.ledger.verdict({**self.scoreboard.answers(), LANDED: landed(rows)})


@contextmanager
def put_up(*, seed: int, per_second: float, window: RollingWindow, say: Say) -> Iterator[Stage]:
    """Start broker, site, agent and streams; leave nothing running and no file behind."""
    with ExitStack() as parts:
        folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        parts.callback(shutil.rmtree, folder, ignore_errors=True)
        say("Starting a broker ...")
        data = ["--data", str(folder / "data")]
        up = ["up", "--listen", "127.0.0.1:0", *data]
        address = parts.enter_context(Child("broker", up, _LISTENS, folder)).said
        create_topics(address)
        say(f"The broker listens on {address}. Starting an agent and Spark ...")
        log = parts.enter_context(AccessLog(folder / "site"))
        agent = parts.enter_context(_agent(folder, log.path, address))
        ledger = Ledger(window, alert_ms=ALERT_MS, alert_failures=ALERT_FAILURES)
        site = Site(seed=seed, per_second=per_second)
        feed = Feed(address=address, site=site, ledger=ledger, log=log)
        parts.callback(feed.stop)
        with stderr_to(folder / "spark.log"):
            spark = _session(folder)
        parts.callback(_stop, spark, folder)
        metrics = {plan: MetricsServer() for plan in (ACCESS_PLAN, PROFILE_PLAN)}
        for each in metrics.values():
            parts.callback(each.close)
        console = parts.enter_context(_console(folder, address, agent, metrics))
        board = Scoreboard(address=address)
        parts.callback(board.stop)
        stage = Stage(
            address=address,
            window=window,
            ledger=ledger,
            feed=feed,
            scoreboard=board,
            agent=agent,
            console=console.said,
            flows=_start_flows(spark, address, window, folder, metrics),
            parquet=folder / "parquet",
            born=time.monotonic(),
        )
        parts.callback(stage.stop_flows)
        board.start()
        feed.start()
        say(f"The console is at {console.said}")
        say("The site is open. Starting one flow after the other ...")
        yield stage


def _agent(folder: Path, log: Path, address: str) -> Child:
    config = folder / "agent.conf"
    write_agent_config(config, log=log, positions=folder / "positions.json", brokers=address)
    place = ["--conf", str(config), "--name", NAME, "--monitor", "127.0.0.1:0"]
    return Child("agent", ["agent", "run", *place], rb"Metrics on (\S+)", folder)


def _console(folder: Path, address: str, agent: Child, metrics: Metrics) -> Child:
    place = ["--bootstrap", address, "--listen", "127.0.0.1:0", "--agent", f"{NAME}={agent.said}"]
    for plan, each in metrics.items():
        place += ["--flow", f"{plan}=http://{each.address}"]
    return Child("console", ["console", *place], rb"The console is at (\S+)", folder)


def _start_flows(
    spark: Any, address: str, window: RollingWindow, folder: Path, metrics: Metrics
) -> Iterator[Any]:
    from headrace.flow.job import start

    checkpoints = folder / "checkpoints"
    yield start_page_count(
        spark,
        address=address,
        views=VIEWS,
        counts=COUNTS,
        window=window,
        checkpoint=checkpoints / "page-count",
    )
    for plan in (access_plan(address), profile_plan(address)):
        place = checkpoints / plan.name
        yield start(
            plan,
            spark,
            brokers=address,
            checkpoint=place,
            trigger=_UNHURRIED,
            metrics=metrics[plan.name],
        )
    yield start_landing(
        spark, address=address, folder=folder / "parquet", checkpoint=checkpoints / "landing"
    )


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
        },
    )


def _stop(spark: Any, folder: Path) -> None:
    # PySpark's own threads complain when Java leaves before them.
    with stderr_to(folder / "spark.log"):
        spark.stop()


def _flow(query: Any) -> FlowPulse:
    progress = query.lastProgress
    if progress is None:
        return FlowPulse(query.name, 0, None)
    read = sum(
        offset
        for source in progress["sources"]
        for partitions in _offsets(source["endOffset"]).values()
        for offset in partitions.values()
    )
    return FlowPulse(query.name, read, int(progress["batchDuration"]))


def _offsets(end: Any) -> dict[str, dict[str, int]]:
    """Progress gives them as JSON text or as what it says, depending on the source."""
    found: dict[str, dict[str, int]] = json.loads(end) if isinstance(end, str) else end
    return found or {}
