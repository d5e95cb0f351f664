"""Polls the agents and flows around the cluster every few seconds.

Several are asked at once, and in another thread than the cluster's: one that hangs delays neither
the others nor the cluster's snapshot. Requests read the last answers.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from headrace.console.status.agent_status import AgentStatus, fetch_agent_status
from headrace.console.status.flow_status import (
    FlowKey,
    FlowStatus,
    fetch_flow_status,
    fetch_run_status,
    remote_run_status,
)
from headrace.console.status.polling_thread import PollingThread
from headrace.console.status.series_set import POINTS, SeriesSet
from headrace.console.status.window_counts import Counts, WindowCounts
from headrace.flow.monitoring.run_folder import Run, RunFolder
from headrace.flow.remote.remote_run import RemoteRun, runs_elsewhere
from headrace.model.clock import Clock

_MOST_FLOWS: Final = 100
_AT_ONCE: Final = 8
_FIRST_SECONDS: Final = 10.0
_SHORTEST_PAUSE_SECONDS: Final = 0.1
_COUNTERS: Final = {"source": "EventAcceptedCount", "sink": "EventDrainSuccessCount"}


class FlowBatch(NamedTuple):
    """A finished micro-batch of a flow, as a poll saw it."""

    at_ms: int
    number: int
    took_ms: float
    records: float


class StatusPoller(PollingThread):
    """Keeps the newest status of every agent and flow, and the history of their batches.

    Args:
        agents, flows: the URLs of those that the operator named. Flows that run on this machine are
            found in the folder of runs.
        remote_runs: returns the flows that report to the brokers, those of this machine too.

    Attributes:
        written: how many records each part has written in total, by ("agent", name, "sink k1") and
            ("flow", name, component).
        counts: what the components of flows counted, by the flow's key and the component.
    """

    def __init__(
        self,
        agents: Mapping[str, str],
        flows: Mapping[str, str],
        clock: Clock,
        interval_seconds: float,
        remote_runs: Callable[[], Sequence[RemoteRun]] = tuple,
    ) -> None:
        super().__init__("console-status")
        self._remote_runs = remote_runs
        self._agent_urls, self._flow_urls = dict(agents), dict(flows)
        self._clock = clock
        self._interval = interval_seconds
        self._executor = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="console-status-fetch")
        self._polls = 0
        self._agents: tuple[AgentStatus, ...] = ()
        self._flows: tuple[FlowStatus, ...] = ()
        self._batches: dict[FlowKey, deque[FlowBatch]] = {}
        self.written: SeriesSet[tuple[str, str, str]] = SeriesSet()
        self.counts: WindowCounts[tuple[FlowKey, str]] = WindowCounts()

    @property
    def agents(self) -> tuple[AgentStatus, ...]:
        return self._agents

    @property
    def flows(self) -> tuple[FlowStatus, ...]:
        return self._flows

    def batches(self, flow: FlowKey) -> list[FlowBatch]:
        return list(self._batches.get(flow, ()))

    def wait_for_first(self) -> None:
        """Return when every agent and flow was asked once, or after 10 seconds."""
        self.wait_until(lambda: self._polls > 0, _FIRST_SECONDS)

    def poll_once(self) -> float:
        began = time.monotonic()
        self._fetch_all()
        self._polls += 1
        self.notify_waiting()
        return max(self._interval - (time.monotonic() - began), _SHORTEST_PAUSE_SECONDS)

    def release(self) -> None:
        self._executor.shutdown()

    def _fetch_all(self) -> None:
        submit = self._executor.submit
        agents = [submit(fetch_agent_status, *each) for each in self._agent_urls.items()]
        here = _runs()
        runs = [submit(fetch_run_status, run) for run in here]
        flows = [submit(fetch_flow_status, *each) for each in self._flow_urls.items()]
        self._agents = tuple(each.result() for each in agents)
        at_ms = self._clock.wall_ms()
        remote = [
            remote_run_status(each, at_ms) for each in runs_elsewhere(self._remote_runs(), here)
        ]
        self._flows = (*(each.result() for each in (*runs, *flows)), *remote)
        self._remember_batches(at_ms)
        self.written.add(at_ms, self._written_totals())
        # A wall clock that is set would lengthen or shorten the windows.
        self.counts.add(self._clock.monotonic_ms(), self._component_counts())

    def _remember_batches(self, at_ms: int) -> None:
        present = {each.key for each in self._flows}
        for key in self._batches.keys() - present:
            del self._batches[key]
        for flow in self._flows:
            batches = self._batches.setdefault(flow.key, deque(maxlen=POINTS))
            if flow.batch is None or (batches and batches[-1].number == flow.batch):
                continue
            assert flow.figures is not None
            took, records = flow.figures["batch_ms"], flow.figures["records"]
            batches.append(FlowBatch(at_ms, flow.batch, took, records))

    def _component_counts(self) -> dict[tuple[FlowKey, str], Counts]:
        """Return the totals of all components; of a flow that does not answer, the last ones."""
        silent = {each.key for each in self._flows if each.figures is None}
        last = self.counts.totals()
        totals = {key: counts for key, counts in last.items() if key[0] in silent}
        for flow in self._flows:
            for each in (flow.figures or {}).get("components", ()):
                numbers = (int(each[name]) for name in Counts._fields)
                totals[flow.key, each["component"]] = Counts(*numbers)
        return totals

    def _written_totals(self) -> dict[tuple[str, str, str], int]:
        totals = {}
        for agent in self._agents:
            for part in agent.parts:
                if part.kind in _COUNTERS:
                    done = part.numbers.get(_COUNTERS[part.kind], 0.0)
                    totals["agent", agent.name, f"{part.kind} {part.name}"] = int(done)
        for flow in self._flows:
            for each in (flow.figures or {}).get("components", ()):
                totals["flow", flow.name, each["component"]] = int(each["executed"])
        return totals


def _runs() -> list[Run]:
    """Return the flows on this machine; none where their folder may not be read."""
    try:
        return RunFolder().runs()[:_MOST_FLOWS]
    except OSError:
        return []
