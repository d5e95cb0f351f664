"""The agents and flows beside the cluster, looked at every few seconds.

Their own thread asks, several at once: one that hangs holds up neither the others nor the look at
the cluster. Requests read what was seen last.
"""

import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Final, NamedTuple

from headrace.console.seen_agent import SeenAgent, look_at_agent
from headrace.console.seen_flow import SeenFlow, look_at_flow, look_at_run
from headrace.console.series import POINTS, SeriesSet
from headrace.flow.monitoring.registry import Registry, Run
from headrace.model.clock import Clock

_MOST_FLOWS: Final = 100
_AT_ONCE: Final = 8
_FIRST_SECONDS: Final = 10.0
_COUNTERS: Final = {"source": "EventAcceptedCount", "sink": "EventDrainSuccessCount"}

FlowKey = tuple[str, int | None]


class Batch(NamedTuple):
    """A batch of a flow that was seen to be over."""

    at_ms: int
    number: int
    took_ms: float
    records: float


class Neighbourhood:
    """The looking thread.

    Args:
        agents, flows: where those that the operator named serve their figures. Flows that run on
            this machine are found in their registry.
    """

    def __init__(
        self,
        agents: Mapping[str, str],
        flows: Mapping[str, str],
        clock: Clock,
        interval_seconds: float,
    ) -> None:
        self._places = dict(agents), dict(flows)
        self._clock = clock
        self._interval = interval_seconds
        self._stop, self._hurry, self._first = Event(), Event(), Event()
        self._thread = Thread(target=self._run, name="console-neighbours", daemon=True)
        self._agents: tuple[SeenAgent, ...] = ()
        self._flows: tuple[SeenFlow, ...] = ()
        self._batches: dict[FlowKey, deque[Batch]] = {}
        # What parts have written, ever: ("agent", its name, "sink k1"), ("flow", its name, "out").
        self.written: SeriesSet[tuple[str, str, str]] = SeriesSet()

    @property
    def agents(self) -> tuple[SeenAgent, ...]:
        return self._agents

    @property
    def flows(self) -> tuple[SeenFlow, ...]:
        return self._flows

    def batches(self, flow: FlowKey) -> list[Batch]:
        return list(self._batches.get(flow, ()))

    def wait(self) -> None:
        """Until everybody was asked once, for a while."""
        self._first.wait(_FIRST_SECONDS)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def hurry(self) -> None:
        """Look again now: something was changed."""
        self._hurry.set()

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="console-neighbour") as pool:
            while not self._stop.is_set():
                began = time.monotonic()
                self._look(pool)
                self._first.set()
                self._hurry.wait(max(self._interval - (time.monotonic() - began), 0.1))
                self._hurry.clear()

    def _look(self, pool: ThreadPoolExecutor) -> None:
        agents, flows = self._places
        at_agents = [pool.submit(look_at_agent, name, url) for name, url in agents.items()]
        at_runs = [pool.submit(look_at_run, run) for run in _runs()]
        at_flows = [pool.submit(look_at_flow, name, url) for name, url in flows.items()]
        self._agents = tuple(each.result() for each in at_agents)
        self._flows = tuple(each.result() for each in (*at_runs, *at_flows))
        at_ms = self._clock.wall_ms()
        self._remember_batches(at_ms)
        self.written.add(at_ms, self._counted())

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
            batches.append(Batch(at_ms, flow.batch, took, records))

    def _counted(self) -> dict[tuple[str, str, str], int]:
        found = {}
        for agent in self._agents:
            for part in agent.parts:
                if part.kind in _COUNTERS:
                    done = part.numbers.get(_COUNTERS[part.kind], 0.0)
                    found["agent", agent.name, f"{part.kind} {part.name}"] = int(done)
        for flow in self._flows:
            for each in (flow.figures or {}).get("components", ()):
                found["flow", flow.name, each["component"]] = int(each["executed"])
        return found


def _runs() -> list[Run]:
    """Flows on this machine; none where their folder may not be read."""
    try:
        return Registry().runs()[:_MOST_FLOWS]
    except OSError:
        return []
