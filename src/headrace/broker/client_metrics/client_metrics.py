"""The subscriptions in force, and the newest push of every client.

Rule 1: a client is what its instance id says, whichever connection it pushes over. Only how often
it may push goes by its connection too, since a client chooses its id.
Rule 2: what clients can make the broker hold is bounded: samples per client, clients, and samples
of all clients together. Beyond that the clients go first that have been silent for longest.
Rule 3: a client is dropped three intervals after its last push, or two minutes after it has said
goodbye, and never before two minutes: Prometheus has had its last figures by then.
Rule 4: pushes are read one after the other (`reading`), however many clients push.
"""

import asyncio
from collections.abc import Iterable, Mapping
from uuid import UUID
from weakref import WeakKeyDictionary

from headrace.broker.client_metrics.otlp import Sample
from headrace.broker.client_metrics.pushed_metrics import PushedMetrics
from headrace.broker.client_metrics.subscription import Demand, Subscription
from headrace.model.clock import Clock

MAX_SAMPLES = 1000
_MAX_SAMPLES_OF_ALL = 100_000
_MAX_CLIENTS = 5000
_SILENT_INTERVALS = 3
_LEAST_KEPT_MS = 120_000


class ClientMetrics:
    """Lives on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._subscriptions: list[Subscription] = []
        # The one that has pushed last stands last.
        self._clients: dict[UUID, PushedMetrics] = {}
        self._sample_count = 0
        # When each connection has pushed last, readable or not, and whether it said goodbye.
        self._tries: WeakKeyDictionary[object, tuple[int, bool]] = WeakKeyDictionary()
        self.reading = asyncio.Lock()

    def set_subscriptions(self, subscriptions: Iterable[Subscription]) -> None:
        self._subscriptions = list(subscriptions)

    def demand(self, client: Mapping[str, str]) -> Demand:
        """Return what a client should push, by what it is matched by."""
        return Demand.of(self._subscriptions, client)

    def too_early(
        self, instance_id: UUID, connection: object, demand: Demand, *, terminating: bool
    ) -> bool:
        """Return whether a client pushes more than twice as often as it should; count the push of
        its connection if not. The last push may come early, once."""
        now_ms = self._clock.monotonic_ms()
        pushes = [self._tries.get(connection)]
        known = self._clients.get(instance_id)
        if known is not None:
            pushes.append((known.pushed_ms, known.terminated))
        for push in pushes:
            if push is None or (terminating and not push[1]):
                continue
            if now_ms - push[0] < demand.interval_ms // 2:
                return True
        self._tries[connection] = now_ms, terminating
        return False

    def pushed(
        self,
        instance_id: UUID,
        client_id: str,
        demand: Demand,
        samples: Iterable[Sample],
        *,
        terminating: bool,
    ) -> None:
        """Keep a client's push in place of its last one."""
        wanted = tuple(each for each in samples if demand.wants(each.metric))[:MAX_SAMPLES]
        self._drop(instance_id)
        self._clients[instance_id] = PushedMetrics(
            instance_id=instance_id,
            client_id=client_id,
            interval_ms=demand.interval_ms,
            pushed_ms=self._clock.monotonic_ms(),
            samples=wanted,
            terminated=terminating,
        )
        self._sample_count += len(wanted)
        while self._sample_count > _MAX_SAMPLES_OF_ALL or len(self._clients) > _MAX_CLIENTS:
            self._drop(next(iter(self._clients)))

    def newest(self) -> list[PushedMetrics]:
        """Return the newest push of every client that is not silent (rule 3)."""
        now_ms = self._clock.monotonic_ms()
        for client in list(self._clients.values()):
            silence_ms = 0 if client.terminated else client.interval_ms * _SILENT_INTERVALS
            if now_ms - client.pushed_ms > max(_LEAST_KEPT_MS, silence_ms):
                self._drop(client.instance_id)
        return list(self._clients.values())

    def _drop(self, instance_id: UUID) -> None:
        known = self._clients.pop(instance_id, None)
        if known is not None:
            self._sample_count -= len(known.samples)
