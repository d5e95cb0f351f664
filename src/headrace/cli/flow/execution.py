"""Running one flow: start, watch, change, stop.

Rule 1: a stop lets the current batch end, for at most half a minute. A batch that takes longer is
        interrupted; the next start from the same checkpoint repeats it, or skips it if the flow is
        at most once.
Rule 2: a request of another command (`rebalance`, `restart`, `activate`, `deactivate`) is carried
        out between two batches: the query stops after a batch and starts again from its checkpoint,
        with the new plan if there is one. An inactive flow has no query.
Rule 3: a request that fails is answered with the reason, and changes nothing: the flow goes on as
        it was. It ends only if its query has ended and does not start again.
Rule 4: the run has a file in the folder of runs exactly while it runs.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.cli.flow.figures_display import Watch
from headrace.cli.flow.flow_run import RunOptions
from headrace.cli.flow.program import LoadedProgram
from headrace.flow.error import FlowError
from headrace.flow.execution.activation import Activation
from headrace.flow.execution.planned_stop import PlannedStop
from headrace.flow.execution.rebalance import rebalanced
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.run_folder import (
    ACTIVATE,
    DEACTIVATE,
    RESTART,
    Run,
    RunFolder,
    this_run,
)
from headrace.flow.plan.graph import Graph
from headrace.flow.plan.plan import Guarantee, Latency
from headrace.flow.storage.hadoop_file_store import open_store
from headrace.model.error import HeadraceError

_POLL_SECONDS = 0.25
_BATCH_SECONDS = 30.0
# How long the file of a run that ends stays, so that the command that asked reads the answer in it.
_ANSWER_SECONDS = 1.0


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
        activation: whether the flow is active, kept in its checkpoint.
        planned_stop: of a flow that is at most once.
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
    activation: Activation
    planned_stop: PlannedStop | None = None
    run_folder: RunFolder = field(default_factory=RunFolder)
    _query: Any = None
    _ending: bool = False

    def run(self) -> None:
        """Run until it is stopped, its time is over, or it fails.

        Raises:
            FlowError: the query failed or did not start, or there is none to wait for.
        """
        seconds = self.options.seconds
        deadline = None if seconds is None else time.monotonic() + seconds
        if self.activation.active:
            self._start()
        elif self.options.once:
            raise FlowError(
                f"{self.name} is inactive, so there is nothing to do now: run it without"
                f" --available-now, and headrace flow activate {self.name}"
            )
        else:
            print(f"{self.name} is inactive: headrace flow activate {self.name}", flush=True)
        run = self._announce()
        try:
            while not self._ended and not self._is_over(deadline):
                request = self.run_folder.take_request(run)
                if request is not None:
                    run = self._carry_out(run, request)
                self.watch(self.metrics.figures())
                time.sleep(_POLL_SECONDS)
            self._finish()
            self.watch(self.metrics.figures())
            failure = self._failure()
            if failure is not None:
                raise self.options.failed(self.name, failure)
            if self._ending and not self._is_over(deadline):
                raise FlowError(f"the query of {self.name} ended late for a request that failed")
        finally:
            self.run_folder.remove(run)
            self.metrics.close()
            if self._query is not None:
                self._query.stop()

    @property
    def _ended(self) -> bool:
        return self._query is not None and not self._query.isActive

    def _start(self) -> None:
        from pyspark.errors import PySparkException

        try:
            query = self.begin()
        except BaseException as error:
            if self.planned_stop is not None:
                self.planned_stop.restore()
            if isinstance(error, PySparkException):
                raise self.options.failed(self.name, error) from error
            raise
        self._query = query
        self.metrics.serve_query(self.name, lambda: query.lastProgress)

    def _finish(self) -> None:
        """End the query after its current batch."""
        if self._query is None:
            return
        if self.planned_stop is None:
            finish(self._query)
            return
        finish(self._query, hold=self.planned_stop.hold)
        self.planned_stop.record(self._query)

    def _failure(self) -> Any:
        """Return the exception with which the query ended by itself."""
        failure = None if self._query is None else self._query.exception()
        if self.planned_stop is not None and self.planned_stop.caused(failure):
            return None
        return failure

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
            active=self._query is not None,
        )
        self.run_folder.drop_requests(run)
        self.run_folder.write(run)
        return run

    def _carry_out(self, run: Run, request: Mapping[str, Any]) -> Run:
        """Do what another process asks, and return the run with the outcome.

        Raises:
            FlowError: the query was ended for it, and does not start again.
        """
        self._ending = False
        failure: Exception | None = None
        try:
            if request.get(ACTIVATE):
                self._activate()
            elif request.get(DEACTIVATE):
                self._deactivate()
            else:
                self._change(request)
        except Exception as error:  # noqa: BLE001 - Spark's, Java's, the disk's, the program's
            failure = error
        else:
            self._ending = False
            run = replace(run, graph=self.graph(), active=self._query is not None)
        problem = None if failure is None else self._problem(failure)
        try:
            run = self.run_folder.answer(run, request, problem)
        except OSError as error:
            print(f"{self.name} could not answer a request: {error}", file=sys.stderr, flush=True)
        if problem is not None and self._ending and self._ended:
            time.sleep(_ANSWER_SECONDS)
            raise FlowError(problem) from failure
        return run

    def _problem(self, error: Exception) -> str:
        if isinstance(error, HeadraceError):
            return str(error)
        if isinstance(error, OSError):
            return f"{self.name} failed: {type(error).__name__}: {error}"
        return str(self.options.failed(self.name, error))

    def _change(self, request: Mapping[str, Any]) -> None:
        """Change the plan if that is asked for, and start the query again."""
        if request.get(RESTART):
            self._check_restart()
        else:
            self.change(request)
        if self._query is not None:
            self._ending = True
            self._finish()
            self._start()

    def _check_restart(self) -> None:
        if self._query is None:
            raise FlowError(f"{self.name} is inactive: activate it instead")

    def _activate(self) -> None:
        """Start the query. A flow whose query does not start stays inactive."""
        if self._query is not None:
            return
        self.activation.activate()
        try:
            self._start()
        except BaseException:
            self.activation.deactivate()
            raise

    def _deactivate(self) -> None:
        """End the query. The file comes first: a crash in between leaves an inactive flow.

        Raises:
            FlowError: the query failed in its last batch, and the run then ends with that failure;
                or the run ends by itself. The flow stays active.
        """
        if self._query is None:
            return
        if self.options.once:
            raise FlowError(
                f"{self.name} ends when it has read what there is now (--available-now): stop it"
                " instead"
            )
        try:
            self.activation.deactivate()
            self._ending = True
            self._finish()
            failure = self._failure()
            if failure is not None:
                raise self.options.failed(self.name, failure)
        except BaseException:
            self.activation.activate()
            raise
        self._query = None


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
    checkpoint = open_store(spark, options.checkpoint, "the checkpoint")
    planned_stop = None
    plan = program.plan
    if plan.guarantee is Guarantee.AT_MOST_ONCE and plan.latency is not Latency.REALTIME:
        planned_stop = PlannedStop(spark.sparkContext._jsc.sc(), checkpoint)
    return Execution(
        name=name,
        options=options,
        spark=spark,
        begin=begin,
        change=change,
        graph=graph,
        stopped=stopped,
        watch=watch,
        metrics=metrics,
        activation=Activation(checkpoint),
        planned_stop=planned_stop,
    )


def activation_of(spark: Any, options: RunOptions) -> Activation:
    """Return whether the flow of a checkpoint is active.

    Raises:
        FlowError: executors on other machines would not reach the checkpoint.
    """
    return Activation(open_store(spark, options.checkpoint, "the checkpoint"))


def finish(
    query: Any,
    seconds: float = _BATCH_SECONDS,
    hold: Callable[[Any], bool] = lambda query: True,
) -> None:
    """Let the current batch end, and stop the query before the next one.

    Args:
        hold: keeps the next batch from running; returns False if it runs already. The stop then
            waits for that one too.
    """
    last = query.lastProgress
    deadline = time.monotonic() + seconds
    while query.isActive and time.monotonic() < deadline:
        status = query.status
        now = query.lastProgress
        if (now != last or not status["isTriggerActive"]) and hold(query):
            break
        last = now
        time.sleep(_POLL_SECONDS / 10)
    query.stop()
