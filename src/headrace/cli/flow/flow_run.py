"""Running a plan from the command line: start, watch, change, stop.

Rule 1: a stop lets the current batch end, for at most half a minute. A batch that takes longer is
        interrupted; the next start from the same checkpoint repeats it.
Rule 2: a request of `headrace flow rebalance` or `restart` is carried out between two batches: the
        query stops after a batch and starts again from its checkpoint, with the new plan if there
        is one.
Rule 3: the run has a file in the folder of runs exactly while it runs.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.cli.flow.failure_message import flow_failed, spark_failures_reported
from headrace.cli.flow.figures_display import Watch, watching
from headrace.cli.flow.program import LoadedProgram
from headrace.cli.terminal.spark_log import silence_pyspark, spark_log, tail_of
from headrace.cli.terminal.stop import Stop
from headrace.flow.error import FlowError
from headrace.flow.execution.rebalance import rebalanced
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.run_folder import RESTART, Run, RunFolder, this_run
from headrace.flow.plan.graph import Graph
from headrace.flow.storage.location import Location, is_cluster

_POLL_SECONDS = 0.25
# Set by spark-submit, which has chosen the master by then.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
_BATCH_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a program, as the command line says.

    Attributes:
        seconds: how long to run; None: until it is stopped.
        once: process the records that exist now, then end.
        spark_log: the file that Spark writes to; None: a temporary file.
        verbose: let Spark write to our standard error instead.
        traceback: report a failure with Spark's whole message.
    """

    program: str
    brokers: str
    checkpoint: Location
    master: str | None = None
    seconds: float | None = None
    once: bool = False
    spark_log: Path | None = None
    verbose: bool = False
    traceback: bool = False

    @property
    def checkpoint_is_here(self) -> bool:
        """Whether the checkpoint is a folder of this machine, whatever Hadoop is configured to."""
        if self.checkpoint.scheme is not None:
            return self.checkpoint.scheme == "file"
        return SUBMITTED not in os.environ and not is_cluster(self.master or "local")

    def is_first_run(self) -> bool | None:
        """Return whether there is no checkpoint yet; None: only a Spark session can find out."""
        path = self.checkpoint.local_path
        if path is None or not self.checkpoint_is_here:
            return None
        return not path.exists()

    def with_spark_log(self, name: str) -> "RunOptions":
        """Return these options with the file for Spark's output: beside a checkpoint of this
        machine, else in the current folder under the flow's name."""
        path = self.checkpoint.local_path if self.checkpoint_is_here else None
        return replace(self, spark_log=Path(f"{name if path is None else path}.log"))

    def failed(self, name: str, error: BaseException) -> FlowError:
        return flow_failed(name, error, traceback=self.traceback, log=self.spark_log)


@dataclass(slots=True)
class Execution:
    """Runs one flow.

    Args:
        begin: starts the query, and again after every change.
        change: applies a request of another process; raises FlowError if it cannot.
        graph: returns the present graph of the flow.
        stopped: returns whether to stop; called several times a second.
        watch: called with the figures, as often.
        metrics: serves the figures; it is closed at the end.
    """

    name: str
    options: RunOptions
    spark: Any
    begin: Callable[[], Any]
    change: Callable[[Mapping[str, Any]], None]
    graph: Callable[[], Mapping[str, Any]]
    stopped: Callable[[], bool]
    watch: Watch
    metrics: MetricsServer
    run_folder: RunFolder = field(default_factory=RunFolder)

    def run(self) -> None:
        """Run until it is stopped, its time is over, or it fails.

        Raises:
            FlowError: the query failed, or did not start.
        """
        deadline = None if self.options.seconds is None else time.monotonic() + self.options.seconds
        query = self._started()
        self.metrics.serve_query(self.name, lambda: query.lastProgress)
        run = self._announce()
        try:
            while query.isActive and not self._is_over(deadline):
                request = self.run_folder.take_request(run)
                if request is not None:
                    run, query = self._carry_out(run, request, query)
                self.watch(self.metrics.figures())
                time.sleep(_POLL_SECONDS)
            finish(query)
            self.watch(self.metrics.figures())
            failure = query.exception()
            if failure is not None:
                raise self.options.failed(self.name, failure)
        finally:
            self.run_folder.remove(run)
            self.metrics.close()
            query.stop()

    def _started(self) -> Any:
        from pyspark.errors import PySparkException

        try:
            return self.begin()
        except PySparkException as error:
            raise self.options.failed(self.name, error) from error

    def _is_over(self, deadline: float | None) -> bool:
        return self.stopped() or (deadline is not None and time.monotonic() >= deadline)

    def _announce(self) -> Run:
        run = this_run(
            name=self.name,
            program=self.options.program,
            master=self.spark.sparkContext.master,
            brokers=self.options.brokers,
            checkpoint=self.options.checkpoint.absolute,
            console=self.spark.sparkContext.uiWebUrl,
            metrics=self.metrics.address,
            graph=self.graph(),
        )
        self.run_folder.write(run)
        return run

    def _carry_out(self, run: Run, request: Mapping[str, Any], query: Any) -> tuple[Run, Any]:
        try:
            if not request.get(RESTART):
                self.change(request)
        except FlowError as error:
            return self.run_folder.answer(run, request, str(error)), query
        finish(query)
        query = self._started()
        self.metrics.serve_query(self.name, lambda: query.lastProgress)
        run = replace(run, graph=self.graph())
        return self.run_folder.answer(run, request, None), query


def is_first_run(spark: Any, options: RunOptions) -> bool:
    """Return whether there is no checkpoint yet.

    Raises:
        FlowError: executors on other machines would not reach it.
    """
    from headrace.flow.storage.hadoop_file_store import open_store

    return not open_store(spark, options.checkpoint, "the checkpoint").exists()


def plan_execution(
    program: LoadedProgram,
    options: RunOptions,
    spark: Any,
    stopped: Callable[[], bool],
    watch: Watch,
) -> Execution:
    """Return the execution of a plan, which `headrace flow rebalance` can change."""
    from headrace.flow.execution.job import start

    current = [program.plan]
    metrics = MetricsServer()
    trigger = {"availableNow": True} if options.once else None

    def begin() -> Any:
        if program.begin is not None:
            return program.begin(
                spark, checkpoint=options.checkpoint, trigger=trigger, metrics=metrics
            )
        return start(
            current[0],
            spark,
            brokers=options.brokers,
            checkpoint=options.checkpoint,
            trigger=trigger,
            metrics=metrics,
        )

    def change(request: Mapping[str, Any]) -> None:
        if program.begin is not None:
            raise FlowError(f"{program.plan.name} has a task for each partition of its inputs")
        tasks = request.get("parallelism") or {}
        current[0] = rebalanced(current[0], tasks, request.get("partitions"))

    def graph() -> Mapping[str, Any]:
        return Graph.of(current[0]).to_json()

    name = program.plan.name
    return Execution(name, options, spark, begin, change, graph, stopped, watch, metrics)


def finish(query: Any, seconds: float = _BATCH_SECONDS) -> None:
    """Let the current batch end, and stop the query before the next one."""
    last = query.lastProgress
    deadline = time.monotonic() + seconds
    while query.isActive and time.monotonic() < deadline:
        status = query.status
        ended = query.lastProgress != last
        if ended or not status["isTriggerActive"]:
            break
        time.sleep(_POLL_SECONDS / 10)
    query.stop()


@contextmanager
def spark_for(
    name: str, options: RunOptions, settings: Mapping[str, str], *, realtime: bool = False
) -> Iterator[Any]:
    """Yield a Spark session for a flow, and stop it at the end.

    Raises:
        FlowError: Spark did not start, or failed inside the block.
    """
    from py4j.protocol import Py4JError

    with nullcontext() if options.verbose else spark_log(options.spark_log) as log:
        spark = _session(name, options, settings, log, realtime=realtime)
        try:
            with spark_failures_reported(name, traceback=options.traceback, log=options.spark_log):
                yield spark
        finally:
            with suppress(Py4JError, ConnectionError):  # the Java process may be gone
                spark.stop()


def _session(
    name: str, options: RunOptions, settings: Mapping[str, str], log: Path | None, *, realtime: bool
) -> Any:
    from headrace.process.stderr_redirect import stderr_to
    from headrace.spark.ready_session import SparkUnavailable, session

    config = {key: value for key, value in settings.items() if key.startswith("spark.")}
    config = {"spark.ui.showConsoleProgress": "false", **config}
    handler = signal.getsignal(signal.SIGINT)
    if log is not None:
        silence_pyspark()
    try:
        with nullcontext() if log is None else stderr_to(log):
            return session(name, master=options.master, realtime=realtime, config=config)
    except SparkUnavailable as error:
        tail = "" if log is None else f"\n{tail_of(log)}"
        raise FlowError(f"{error}{tail}") from error
    finally:
        # Spark installs a handler of its own, which would raise in the middle of a call to Java.
        signal.signal(signal.SIGINT, handler)


@contextmanager
def started(
    name: str, options: RunOptions, settings: Mapping[str, str], *, realtime: bool = False
) -> Iterator[tuple[Any, Callable[[], bool], Watch]]:
    """Yield Spark, a function that returns whether to stop, and one to call with the figures."""
    RunFolder().check_free(options.checkpoint.absolute)
    with Stop() as stop, watching() as (watch, _):
        print(f"Starting Spark for {name} ...", flush=True)
        with spark_for(name, options, settings, realtime=realtime) as spark:
            log = "" if options.verbose else f", Spark's log in {options.spark_log}"
            print(f"{name} runs, checkpoint in {options.checkpoint}{log}", flush=True)
            yield spark, lambda: stop.requested, watch
    print("Stopped." if stop.requested else f"{name} is done.", flush=True)
