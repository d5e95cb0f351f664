"""Everything the demo runs, put up in order and taken down in the reverse order."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.demo.access_log import AccessLog
from headrace.demo.access_topology import ALERT_FAILURES, ALERT_MS
from headrace.demo.agent_config import NAME, write_agent_config
from headrace.demo.audit_board import AuditBoard
from headrace.demo.child import Child
from headrace.demo.feed import Feed
from headrace.demo.flow_set import NAMES, FlowSet
from headrace.demo.landing import landed_rows
from headrace.demo.ledger import LANDED, Ledger, Verdict, landed
from headrace.demo.pulse import Alert, FlowPulse, Pulse
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.scoreboard import Scoreboard
from headrace.demo.site import Site
from headrace.demo.spark_start import SparkStart
from headrace.demo.topic import ALERTS, COUNTRIES, create_topics
from headrace.demo.trend import Trend
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.shown_table import ShownTable
from headrace.model.error import HeadraceError

_POLL_SECONDS = 0.25
# How long nothing may change before the flows' answers are taken as they are.
_PATIENCE_SECONDS = 120.0
_AUDIT = "audit"
_LISTENS = rb"listens on .*?(127\.0\.0\.1:\d+)"

Say = Callable[[str], object]
Waiting = Callable[[], AbstractContextManager[None]]
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
    audit: AuditBoard
    agent: Child
    page: Child
    spark: SparkStart
    flows: FlowSet
    born: float
    queries: list[Any] = field(default_factory=list)
    _coming: Iterator[Any] | None = None

    @property
    def console(self) -> str:
        """Where it is."""
        return self.page.said

    def advance(self) -> bool:
        """Start the next flow once Spark is there and the flows before have done a batch; whether
        all are started.

        Each begins with several Python workers, and Spark gives up one that is not there after ten
        seconds: on a small machine they must not all start at once.
        """
        if self._coming is None:
            if self.spark.session is None:
                return False
            self._coming = self.flows.start(self.spark.session)
        if any(query.lastProgress is None for query in self.queries):
            return False
        query = next(self._coming, None)
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
            ChildFailed: the agent or the console has.
        """
        if self.feed.problem is not None:
            raise DemoFailed(f"the site could not write its views: {self.feed.problem}")
        self.agent.check()
        self.page.check()
        for query in self.queries:
            failure = query.exception()
            if failure is not None:
                raise DemoFailed(f"the Spark stream {query.name} ended: {failure}")

    def trend(self) -> Trend:
        return Trend.of(self.scoreboard, self.window, time.time_ns() // 1_000_000)

    def pulse(self, seconds_left: float | None = None) -> Pulse:
        trend = self.trend()
        alerts = self.scoreboard.answers()[ALERTS]
        self.audit.look()
        return Pulse(
            address=self.address,
            running_seconds=time.monotonic() - self.born,
            written=self.ledger.views,
            console=self.console,
            window_seconds=self.window.length_ms // 1_000,
            flows=tuple(_flow(query) for query in self.queries),
            seconds_left=seconds_left,
            trend=trend,
            countries=self.scoreboard.totals(COUNTRIES),
            alerts=tuple(
                Alert(str(page), int(at_ms))
                for page, at_ms in sorted(alerts, key=lambda key: int(key[1]))
            ),
            audit=self.audit.pulse(time.time_ns() // 1_000_000),
        )

    def finish(self) -> Verdict:
        """Stop the site, let the streams catch up, and hold their answers against the truth."""
        self.feed.stop()
        self.check()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        verdict = self._verdict()
        while not (self.advance() and verdict.right) and time.monotonic() < deadline:
            self.check()
            time.sleep(_POLL_SECONDS)
            before = verdict, len(self.queries)
            verdict = self._verdict()
            if before != (verdict, len(self.queries)):
                deadline = time.monotonic() + _PATIENCE_SECONDS
        return verdict

    def _verdict(self) -> Verdict:
        rows = landed_rows(self.flows.parquet)
        verdict = self.ledger.verdict({**self.scoreboard.answers(), LANDED: landed(rows)})
        self.audit.look()
        checks = {**verdict.checks, _AUDIT: self.audit.check(self.ledger.views)}
        return replace(verdict, checks=checks)


@contextmanager
def put_up(
    *, seed: int, per_second: float, window: RollingWindow, say: Say, waiting: Waiting = nullcontext
) -> Iterator[Stage]:
    """Start broker, site, agent and console; leave nothing running and no file behind.

    Spark starts meanwhile, and the flows when it is there: `Stage.advance`.

    Args:
        waiting: around what takes long and may be cut off.
    """
    with ExitStack() as parts:
        folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        parts.callback(shutil.rmtree, folder, ignore_errors=True)
        say("Starting a broker and Spark ...")
        broker = parts.enter_context(_broker(folder))
        spark = parts.enter_context(SparkStart(folder))
        with waiting():
            address = broker.said
            create_topics(address)
        say(f"The broker listens on {address}. Starting an agent and the console ...")
        log = parts.enter_context(AccessLog(folder / "site"))
        agent = parts.enter_context(_agent(folder, log.path, address))
        ledger = Ledger(window, alert_ms=ALERT_MS, alert_failures=ALERT_FAILURES)
        site = Site(seed=seed, per_second=per_second)
        feed = Feed(address=address, site=site, ledger=ledger, log=log)
        parts.callback(feed.stop)
        with waiting():
            _ = agent.said
        metrics = {name: MetricsServer() for name in NAMES}
        for each in metrics.values():
            parts.callback(each.close)
        console = parts.enter_context(_console(folder, address, agent, metrics))
        board = Scoreboard(address=address)
        parts.callback(board.stop)
        audit = AuditBoard(address)
        parts.callback(audit.close)

        def tables() -> tuple[ShownTable, ...]:
            return (stage.trend().table(window.length_ms // 1_000),)

        stage = Stage(
            address=address,
            window=window,
            ledger=ledger,
            feed=feed,
            scoreboard=board,
            audit=audit,
            agent=agent,
            page=console,
            spark=spark,
            flows=FlowSet(address, window, folder, metrics, tables),
            born=time.monotonic(),
        )
        parts.callback(stage.stop_flows)
        board.start()
        feed.start()
        with waiting():
            _ = console.said
        say(f"The site is open. The console is at {console.said}")
        yield stage


def _broker(folder: Path) -> Child:
    up = ["up", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    return Child("broker", up, _LISTENS, folder)


def _agent(folder: Path, log: Path, address: str) -> Child:
    config = folder / "agent.conf"
    write_agent_config(config, log=log, positions=folder / "positions.json", brokers=address)
    place = ["--conf", str(config), "--name", NAME, "--monitor", "127.0.0.1:0"]
    return Child("agent", ["agent", "run", *place], rb"Metrics on (\S+)", folder)


def _console(folder: Path, address: str, agent: Child, metrics: Metrics) -> Child:
    place = ["--bootstrap", address, "--listen", "127.0.0.1:0", "--agent", f"{NAME}={agent.said}"]
    for name, each in metrics.items():
        place += ["--flow", f"{name}=http://{each.address}"]
    return Child("console", ["console", *place], rb"The console is at (\S+)", folder)


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
