"""Everything that the demo runs, started in order and stopped in the reverse order."""

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
from headrace.demo.answer_reader import AnswerReader
from headrace.demo.command_process import CommandProcess
from headrace.demo.demo_audit import DemoAudit
from headrace.demo.demo_status import Alert, DemoStatus, QueryStatus
from headrace.demo.expected_answers import LANDED, DemoResult, ExpectedAnswers, landed_answer
from headrace.demo.flow_set import NAMES, FlowSet
from headrace.demo.landing import landed_rows
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.site import Site
from headrace.demo.site_writer import SiteWriter
from headrace.demo.spark_start import SparkStart
from headrace.demo.topic import ALERTS, COUNTRIES, create_topics
from headrace.demo.trend import Trend
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.shown_table import ShownTable
from headrace.model.error import HeadraceError

_POLL_SECONDS = 0.25
# If no answer changes for this long, the flows' answers are compared as they are.
_UNCHANGED_SECONDS = 300.0
_AUDIT = "audit"
_LISTENS = rb"listens on .*?(127\.0\.0\.1:\d+)"

Say = Callable[[str], object]
Waiting = Callable[[], AbstractContextManager[None]]
Metrics = Mapping[str, MetricsServer]


class DemoFailed(HeadraceError):
    """A part of the demo failed."""


@dataclass(slots=True)
class DemoSystem:
    """The running processes, threads and queries of the demo.

    Attributes:
        site_writer: writes the site's views.
        expected: the answers that the flows should give to those views.
        answer_reader: reads the answers that they gave.
        console_process: serves the console.
        queries: the flows that were started so far.
    """

    address: str
    window: RollingWindow
    expected: ExpectedAnswers
    site_writer: SiteWriter
    answer_reader: AnswerReader
    audit: DemoAudit
    agent: CommandProcess
    console_process: CommandProcess
    spark: SparkStart
    flows: FlowSet
    started_at: float
    queries: list[Any] = field(default_factory=list)
    _next_queries: Iterator[Any] | None = None

    @property
    def console(self) -> str:
        """The URL of the console."""
        return self.console_process.address

    def start_next_flow(self) -> bool:
        """Start the next flow if Spark runs and every earlier flow has done a batch. Return whether
        all flows are started.

        Each flow starts several Python workers, and Spark gives up on a worker that takes more than
        ten seconds: on a small machine they must not all start at once.
        """
        if self._next_queries is None:
            if self.spark.session is None:
                return False
            self._next_queries = self.flows.start(self.spark.session)
        if any(query.lastProgress is None for query in self.queries):
            return False
        query = next(self._next_queries, None)
        if query is None:
            return True
        self.queries.append(query)
        return False

    def stop_flows(self) -> None:
        for query in self.queries:
            query.stop()

    def check(self) -> None:
        """Raise the failure of a part, if one has failed.

        Raises:
            DemoFailed: the site cannot write, or a query has ended.
            CommandFailed: the agent or the console has ended.
        """
        if self.site_writer.problem is not None:
            raise DemoFailed(f"the site could not write its views: {self.site_writer.problem}")
        self.agent.check()
        self.console_process.check()
        for query in self.queries:
            failure = query.exception()
            if failure is not None:
                raise DemoFailed(f"the Spark stream {query.name} ended: {failure}")

    def trend(self) -> Trend:
        return Trend.of(self.answer_reader, self.window, time.time_ns() // 1_000_000)

    def status(self, seconds_left: float | None = None) -> DemoStatus:
        trend = self.trend()
        alerts = self.answer_reader.answers()[ALERTS]
        self.audit.read_new()
        return DemoStatus(
            address=self.address,
            running_seconds=time.monotonic() - self.started_at,
            written=self.expected.views,
            console=self.console,
            window_seconds=self.window.length_ms // 1_000,
            flows=tuple(_query_status(query) for query in self.queries),
            seconds_left=seconds_left,
            trend=trend,
            countries=self.answer_reader.totals(COUNTRIES),
            alerts=tuple(
                Alert(str(page), int(at_ms))
                for page, at_ms in sorted(alerts, key=lambda key: int(key[1]))
            ),
            audit=self.audit.status(time.time_ns() // 1_000_000),
        )

    def finish(self) -> DemoResult:
        """Stop the site, let the flows catch up, and compare their answers with the right ones."""
        self.site_writer.stop()
        self.check()
        deadline = time.monotonic() + _UNCHANGED_SECONDS
        result = self._result()
        while not (self.start_next_flow() and result.right) and time.monotonic() < deadline:
            self.check()
            time.sleep(_POLL_SECONDS)
            before = result, len(self.queries)
            result = self._result()
            if before != (result, len(self.queries)):
                deadline = time.monotonic() + _UNCHANGED_SECONDS
        return result

    def _result(self) -> DemoResult:
        rows = landed_rows(self.flows.parquet)
        result = self.expected.compare(
            {**self.answer_reader.answers(), LANDED: landed_answer(rows)}
        )
        self.audit.read_new()
        checks = {**result.checks, _AUDIT: self.audit.check(self.expected.views)}
        return replace(result, checks=checks)


@contextmanager
def start_demo_system(
    *, seed: int, per_second: float, window: RollingWindow, say: Say, waiting: Waiting = nullcontext
) -> Iterator[DemoSystem]:
    """Start broker, site, agent and console; at the end stop them all and delete their files.

    Spark starts at the same time. `DemoSystem.start_next_flow` starts the flows once it runs.

    Args:
        waiting: entered around waits that a signal may interrupt.
    """
    with ExitStack() as parts:
        folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
        parts.callback(shutil.rmtree, folder, ignore_errors=True)
        say("Starting a broker and Spark ...")
        broker = parts.enter_context(_broker(folder))
        spark = parts.enter_context(SparkStart(folder))
        with waiting():
            address = broker.address
            create_topics(address)
        say(f"The broker listens on {address}. Starting an agent and the console ...")
        log = parts.enter_context(AccessLog(folder / "site"))
        agent = parts.enter_context(_agent(folder, log.path, address))
        expected = ExpectedAnswers(window, alert_ms=ALERT_MS, alert_failures=ALERT_FAILURES)
        site = Site(seed=seed, per_second=per_second)
        writer = SiteWriter(address=address, site=site, expected=expected, log=log)
        parts.callback(writer.stop)
        with waiting():
            _ = agent.address
        metrics = {name: MetricsServer() for name in NAMES}
        for each in metrics.values():
            parts.callback(each.close)
        console = parts.enter_context(_console(folder, address, agent, metrics))
        answers = AnswerReader(address=address)
        parts.callback(answers.stop)
        audit = DemoAudit(address)
        parts.callback(audit.close)

        def tables() -> tuple[ShownTable, ...]:
            return (system.trend().table(window.length_ms // 1_000),)

        system = DemoSystem(
            address=address,
            window=window,
            expected=expected,
            site_writer=writer,
            answer_reader=answers,
            audit=audit,
            agent=agent,
            console_process=console,
            spark=spark,
            flows=FlowSet(address, window, folder, metrics, tables),
            started_at=time.monotonic(),
        )
        parts.callback(system.stop_flows)
        answers.start()
        writer.start()
        with waiting():
            _ = console.address
        say(f"The site is open. The console is at {console.address}")
        yield system


def _broker(folder: Path) -> CommandProcess:
    up = ["up", "--listen", "127.0.0.1:0", "--data", str(folder / "data")]
    return CommandProcess("broker", up, _LISTENS, folder)


def _agent(folder: Path, log: Path, address: str) -> CommandProcess:
    config = folder / "agent.conf"
    write_agent_config(config, log=log, positions=folder / "positions.json", brokers=address)
    options = ["--conf", str(config), "--name", NAME, "--monitor", "127.0.0.1:0"]
    return CommandProcess("agent", ["agent", "run", *options], rb"Metrics on (\S+)", folder)


def _console(folder: Path, address: str, agent: CommandProcess, metrics: Metrics) -> CommandProcess:
    options = [
        "--bootstrap",
        address,
        "--listen",
        "127.0.0.1:0",
        "--agent",
        f"{NAME}={agent.address}",
    ]
    for name, each in metrics.items():
        options += ["--flow", f"{name}=http://{each.address}"]
    return CommandProcess("console", ["console", *options], rb"The console is at (\S+)", folder)


def _query_status(query: Any) -> QueryStatus:
    progress = query.lastProgress
    if progress is None:
        return QueryStatus(query.name, 0, None)
    read = sum(
        offset
        for source in progress["sources"]
        for partitions in _offsets(source["endOffset"]).values()
        for offset in partitions.values()
    )
    return QueryStatus(query.name, read, int(progress["batchDuration"]))


def _offsets(end: Any) -> dict[str, dict[str, int]]:
    """Parse the offsets of a progress report: JSON text or a dictionary, by the source."""
    offsets: dict[str, dict[str, int]] = json.loads(end) if isinstance(end, str) else end
    return offsets or {}
