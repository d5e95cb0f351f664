"""Running a stage over the tuples of one Spark task: call a component, pass on what it emitted.

Rules
-----
Rule 1: what a call emitted and put leaves the call only when it has returned.
Rule 2: tuples that raise alone become dead letters, and the others go on; see `batch_call`.
Rule 3: an emit that does not fit its declaration is a mistake in the program and ends it. So does
        every other `Unrecoverable`.
"""

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.plan.grouping import FieldsGrouping, Grouping, PartialKey
from headrace.flow.plan.plan import DEFAULT_STREAM, Kind, PlanComponent
from headrace.flow.plan.work import TaskContext, TupleSource, Work
from headrace.flow.runtime.batch_call import BatchCall
from headrace.flow.runtime.dead_letter import dead_letters
from headrace.flow.runtime.emission import Emission
from headrace.flow.runtime.failure_note import failure_note
from headrace.flow.runtime.outlet import Outlet
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.record import RECORD_FIELDS, RECORDS
from headrace.flow.runtime.report import send_report
from headrace.flow.runtime.route import route
from headrace.flow.runtime.tally import TaskCounts
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch
from headrace.flow.runtime.worker_tasks import worker_tasks

METRICS_TOPIC = "metrics.topic"
"""The plan's setting that names the topic for tallies."""


class StageRun:
    """Runs one Spark task of one batch.

    Args:
        partition: the Spark partition; it is the task number of bolts without slots.
        now_ms: the batch's time, if Spark has one for it.
    """

    def __init__(
        self,
        plan_run: PlanRun,
        partition: int,
        outlet: Outlet | None = None,
        now_ms: int | None = None,
    ) -> None:
        self._now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        self._plan_run = plan_run
        self._partition = partition
        self._state: TaskState | None = None
        self._slot: int | None = None
        self._turn = partition
        self.outlet = Outlet() if outlet is None else outlet
        self.tallies = TaskCounts()

    def spout(self, component: PlanComponent, batch: TupleBatch, stream: str) -> None:
        """Deliver tuples that a spout has read."""
        tally = self.tallies.of(component.name)
        tally.executed += batch.num_rows
        tally.emitted += batch.num_rows
        self._deliver(component.name, stream, batch, None)

    def totals(self, component: PlanComponent, batch: TupleBatch) -> None:
        """Deliver the totals that Spark has added up for a component."""
        self.tallies.of(component.name).emitted += batch.num_rows
        self._deliver(component.name, DEFAULT_STREAM, batch, None)

    def bolt(self, slot: int, edge: int, batch: TupleBatch, state: TaskState | None) -> None:
        """Call the component of a slot with tuples that were carried to it."""
        read = self._plan_run.layout.edges[edge]
        component = self._plan_run.component(read.reader)
        self._slot, self._state = slot, state
        keys = _keys(read.input.grouping)
        self._call(component, read.input.component, read.input.stream, batch, keys)

    def tick(
        self, slot: int, component: PlanComponent, now_ms: int, state: TaskState | None
    ) -> None:
        self._slot, self._state = slot, state
        context = self._context(component)
        emission = self._emission(component, None)
        try:
            self._work(context).tick(now_ms, emission, context)
        except BaseException as error:
            _rollback(context.state)
            error.add_note(failure_note(component.name, None))
            raise
        _accept(context.state)
        self._pass_on(component, emission)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Return the rest of the stage's rows, tallies included."""
        topic = self._plan_run.plan.settings.get(METRICS_TOPIC)
        if topic:
            counted = self.tallies.to_records(topic, self._plan_run.plan.name)
            if counted is not None:
                self.outlet.to_topics(counted)
        if self._plan_run.report_to is not None:
            send_report(self._plan_run.report_to, self._partition, self.tallies.tallies)
        yield from self.outlet.close()

    def _call(
        self,
        component: PlanComponent,
        feeder: str,
        stream: str,
        batch: TupleBatch,
        keys: tuple[str, ...] = (),
    ) -> None:
        tally = self.tallies.of(component.name)
        tally.executed += batch.num_rows
        started = time.perf_counter_ns()
        context = self._context(component)

        def call(part: TupleBatch) -> Emission:
            emission = self._emission(component, part)
            source = TupleSource(feeder, stream, lambda: part.origin)
            try:
                self._work(context).execute(part.columns, emission, context, source)
            except Unrecoverable as error:
                error.add_note(failure_note(component.name, None))
                raise
            return emission

        emissions = BatchCall(
            call,
            give_up=lambda part, failure: self._dead_letter(component, part, failure),
            forget=lambda: self._work(context).forget(),
            state=context.state,
            tries=1 + self._plan_run.plan.retries,
            by_tuple=component.work.by_tuple,
        ).run(batch, keys)
        tally.busy_ns += time.perf_counter_ns() - started
        for emission in emissions:
            self._pass_on(component, emission)

    def _dead_letter(self, component: PlanComponent, batch: TupleBatch, failure: Exception) -> None:
        """Write each tuple to the dead letter topic; without one, the failure ends the plan."""
        topic = self._plan_run.plan.dead_letters
        if topic is None:
            failure.add_note(failure_note(component.name, batch.place))
            raise failure
        self.tallies.of(component.name).failed += batch.num_rows
        for letters in dead_letters(topic, component.name, batch, failure):
            self.outlet.to_topics(letters)

    def _pass_on(self, component: PlanComponent, emission: Emission) -> None:
        tally = self.tallies.of(component.name)
        for tuples, failure in emission.dead_letters:
            self._dead_letter(component, tuples, failure)
        for each in emission.emitted:
            tally.emitted += each.batch.num_rows
            if component.kind is Kind.SINK:
                self.outlet.to_topics(each.batch.columns)
            else:
                self._deliver(component.name, each.stream, each.batch, each.tasks)

    def _deliver(self, component: str, stream: str, batch: TupleBatch, tasks: Any) -> None:
        layout = self._plan_run.layout
        for edge in layout.edges_from(component, stream):
            reader = self._plan_run.component(edge.reader)
            if not edge.carried:
                self._call(reader, component, stream, batch)
                continue
            self._turn += 1
            slots = layout.slots[edge.reader]
            grouping = edge.input.grouping
            load = None
            if isinstance(grouping, PartialKey):
                load = worker_tasks(self._plan_run).load(edge.number, len(slots))
            parts = route(batch, grouping, len(slots), turn=self._turn, direct=tasks, load=load)
            for task, part in parts:
                self.outlet.carry(slots[task], edge.number, part)

    def _emission(self, component: PlanComponent, batch: TupleBatch | None) -> Emission:
        outputs = {RECORDS: RECORD_FIELDS} if component.kind is Kind.SINK else component.outputs
        return Emission(component.name, outputs, batch)

    def _context(self, component: PlanComponent) -> TaskContext:
        slots = self._plan_run.layout.slots.get(component.name)
        mine = self._in_slot(component.name)
        return TaskContext(
            plan=self._plan_run.plan.name,
            component=component.name,
            task=self._slot - slots.start if mine else self._partition,  # type: ignore[operator,union-attr]
            tasks=component.parallelism,
            state=self._state if mine and component.stateful else None,
            inputs=tuple((each.component, each.stream) for each in component.inputs),
            retries=self._plan_run.plan.retries,
            now_ms=self._now_ms,
        )

    def _in_slot(self, component: str) -> bool:
        """Return whether the component is called as one of its own tasks, not at its feeder."""
        slots = self._plan_run.layout.slots.get(component)
        return slots is not None and self._slot is not None and self._slot in slots

    def _work(self, context: TaskContext) -> Work:
        sent = self._plan_run.component(context.component).work
        shared = not self._in_slot(context.component)
        return worker_tasks(self._plan_run).prepared(context, sent, _own_copy, shared=shared)


def _own_copy(work: Any) -> Any:
    """Return a task's own copy of its work, pickled as Spark pickled it.

    cloudpickle also copies the classes of the user's main module.
    """
    from pyspark import cloudpickle

    return cloudpickle.loads(cloudpickle.dumps(work))  # type: ignore[no-untyped-call]


def _keys(grouping: Grouping) -> tuple[str, ...]:
    """Return the fields whose equal values one task has all tuples of."""
    divided = isinstance(grouping, FieldsGrouping) and not isinstance(grouping, PartialKey)
    return grouping.field_names if divided else ()


def _accept(state: TaskState | None) -> None:
    if state is not None:
        state.accept()


def _rollback(state: TaskState | None) -> None:
    if state is not None:
        state.rollback()
