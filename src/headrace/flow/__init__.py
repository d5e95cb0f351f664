"""Stream programs for Storm, Trident and Samza users and in SQL, executed by Spark.

The public names of every program; `headrace.flow.storm`, `trident`, `samza` and `drpc` have their
own. A name is loaded on first use.

    start           Start a plan as a streaming query.
    run_batch       Run a plan as a batch over the records there are.
    activate        Let a running flow read again.
    deactivate      Let a running flow read nothing until it is activated.
    check_plan      Report the first mistake of a plan, before Spark starts.
    Aggregate       Totals by key: counts, sums, means, distinct values.
    Select          A filter and projection, written as expressions.
    CountWindow     A window of so many tuples.
    TimeWindow      A window of a stretch of time.
    Window          The tuples that a windowed bolt is called with.
    Emit            Type of the function that sends tuples on.
    TaskContext     Where a bolt runs: task number, state, time.
    Fields          Names and types of a stream's tuples.
    Guarantee       At most once, at least once or exactly once.
    Latency         Micro-batches, or Spark's real-time mode.
    Plan            What a program does: the result of `topology.plan()`.
    Landing         Topics to land in a folder of Parquet files.
    MetricsServer   Serves the figures of a run over HTTP.
    read_figures    Read the figures that a MetricsServer serves.
    records_read    Count the records of a progress of Spark, which counts chunks.
    failure_of      Return component, record and lines of what a query raised.
    FlowError       A program that cannot run as it is written.
    Unrecoverable   A failure that no single tuple caused; the batch fails.

Example:
    from headrace.flow import Aggregate, start
    from headrace.flow.storm import TopicSink, TopicSpout, Topology
    from headrace.spark import session

    topology = Topology("words")
    topology.spout("words", TopicSpout("words", brokers=brokers, fields="value STRING"))
    topology.bolt("count", Aggregate("value", n="count")).fields("words", "value")
    topology.sink("counts", TopicSink("counts", key="value")).shuffle("count")
    start(topology.plan(), session("words"), brokers=brokers, checkpoint=Path("words"))
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = [
    "Aggregate",
    "CountWindow",
    "Emit",
    "Fields",
    "FlowError",
    "Guarantee",
    "Landing",
    "Latency",
    "MetricsServer",
    "Plan",
    "Select",
    "TaskContext",
    "TimeWindow",
    "Unrecoverable",
    "Window",
    "activate",
    "check_plan",
    "deactivate",
    "failure_of",
    "read_figures",
    "records_read",
    "run_batch",
    "start",
]

if TYPE_CHECKING:
    from headrace.flow.error import FlowError, Unrecoverable
    from headrace.flow.execution.failure import failure_of
    from headrace.flow.execution.job import run_batch, start
    from headrace.flow.land import Landing
    from headrace.flow.monitoring.activation_request import activate, deactivate
    from headrace.flow.monitoring.metrics import read_figures, records_read
    from headrace.flow.monitoring.metrics_server import MetricsServer
    from headrace.flow.plan.aggregate import Aggregate
    from headrace.flow.plan.check_plan import check_plan
    from headrace.flow.plan.fields import Fields
    from headrace.flow.plan.plan import Guarantee, Latency, Plan
    from headrace.flow.plan.select import Select
    from headrace.flow.plan.window import CountWindow, TimeWindow, Window
    from headrace.flow.plan.work import Emit, TaskContext
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Aggregate": "headrace.flow.plan.aggregate",
            "CountWindow": "headrace.flow.plan.window",
            "Emit": "headrace.flow.plan.work",
            "Fields": "headrace.flow.plan.fields",
            "FlowError": "headrace.flow.error",
            "Guarantee": "headrace.flow.plan.plan",
            "Landing": "headrace.flow.land",
            "Latency": "headrace.flow.plan.plan",
            "MetricsServer": "headrace.flow.monitoring.metrics_server",
            "Plan": "headrace.flow.plan.plan",
            "Select": "headrace.flow.plan.select",
            "TaskContext": "headrace.flow.plan.work",
            "TimeWindow": "headrace.flow.plan.window",
            "Unrecoverable": "headrace.flow.error",
            "Window": "headrace.flow.plan.window",
            "activate": "headrace.flow.monitoring.activation_request",
            "check_plan": "headrace.flow.plan.check_plan",
            "deactivate": "headrace.flow.monitoring.activation_request",
            "failure_of": "headrace.flow.execution.failure",
            "read_figures": "headrace.flow.monitoring.metrics",
            "records_read": "headrace.flow.monitoring.metrics",
            "run_batch": "headrace.flow.execution.job",
            "start": "headrace.flow.execution.job",
        },
    )
