"""The demo's flows on Spark, and the figures that each of them serves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.demo import access_topology, landing, page_count, profile_topology
from headrace.demo.rolling_window import RollingWindow
from headrace.demo.topic import COUNTS, VIEWS
from headrace.flow.monitoring.metrics_server import MetricsServer, Tables
from headrace.flow.plan.graph import Graph

NAMES = (page_count.NAME, access_topology.NAME, profile_topology.NAME, landing.NAME)

# Two cores run four queries: those that the dashboard does not wait for run less often.
_SLOW_TRIGGER = {"processingTime": "3 seconds"}


@dataclass(frozen=True, slots=True)
class FlowSet:
    """Starts the flows.

    Attributes:
        metrics: the servers of the flows' figures, by name.
        tables: the tables of the page count.
    """

    address: str
    window: RollingWindow
    folder: Path
    metrics: Mapping[str, MetricsServer]
    tables: Tables

    @property
    def parquet(self) -> Path:
        return self.folder / "parquet"

    def start(self, spark: Any) -> Iterator[Any]:
        """Yield the queries; each is started when the iterator reaches it."""
        from headrace.flow.execution.job import start

        yield self._page_count(spark)
        plans = (
            access_topology.access_plan(self.address),
            profile_topology.profile_plan(self.address),
        )
        for plan in plans:
            metrics = self.metrics[plan.name]
            metrics.describe(Graph.of(plan).to_json())
            yield start(
                plan,
                spark,
                brokers=self.address,
                checkpoint=self._checkpoint(plan.name),
                trigger=_SLOW_TRIGGER,
                metrics=metrics,
            )
        yield self._landing(spark)

    def _page_count(self, spark: Any) -> Any:
        name = page_count.NAME
        query = page_count.start_page_count(
            spark,
            address=self.address,
            views=VIEWS,
            counts=COUNTS,
            window=self.window,
            checkpoint=self._checkpoint(name),
        )
        self._show(name, query, Graph.of_query(name, reads=VIEWS, writes=COUNTS), self.tables)
        return query

    def _landing(self, spark: Any) -> Any:
        name, folder = landing.NAME, self.parquet
        query = landing.start_landing(
            spark, address=self.address, folder=folder, checkpoint=self._checkpoint(name)
        )
        self._show(name, query, Graph.of_query(name, reads=VIEWS, writes=f"{folder.name}/"))
        return query

    def _show(self, name: str, query: Any, graph: Graph, tables: Tables = tuple) -> None:
        self.metrics[name].serve_query(name, lambda: query.lastProgress)
        self.metrics[name].describe(graph.to_json(), tables)

    def _checkpoint(self, name: str) -> Path:
        return self.folder / "checkpoints" / name
