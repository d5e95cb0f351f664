"""One flow, from one cluster to another: finds topics, copies, waits when a cluster is away."""

import time
from collections.abc import Sequence
from threading import Event
from typing import Final

import structlog

from headrace.client.error import ClientError, ProducerFenced
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.process.copier import Copier
from headrace.mirror.process.figures import FlowFigures
from headrace.mirror.process.offset_syncs import OffsetSyncs
from headrace.mirror.process.source_state import Stopped
from headrace.mirror.process.topic_plan import TopicPlan
from headrace.mirror.process.topic_sync import TopicSync
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

_log = structlog.get_logger(__name__)
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 15.0


class FlowReplaced(ClientError):
    """Another process copies the flow now."""


class Flow:
    """Copies until it is stopped, whatever is away meanwhile. One thread runs it.

    Attributes:
        plan: what is copied at the moment; other threads may read it.
    """

    def __init__(
        self,
        settings: FlowSettings,
        source: ClientSettings,
        target: ClientSettings,
        *,
        flows: Sequence[FlowSettings],
        figures: FlowFigures,
        syncs: OffsetSyncs,
    ) -> None:
        self.settings = settings
        self.plan = TopicPlan(())
        self._source = source
        self._target = target
        self._flows = flows
        self._figures = figures
        self._syncs = syncs
        self._stopped: dict[TopicPartition, Stopped] = {}
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    @property
    def name(self) -> str:
        return self.settings.name

    def run(self, stop: Event) -> None:
        """Copy until `stop`.

        Raises:
            FlowReplaced: another process has taken the flow over.
        """
        while not stop.is_set():
            try:
                self._connected(stop)
            except FlowReplaced:
                raise
            except HeadraceError as error:
                self._figures.runs(False)
                _log.warning(
                    "mirror_flow_waiting",
                    flow=self.name,
                    error=str(error),
                    seconds=self._pause_seconds,
                )
                stop.wait(self._pause_seconds)
                self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def _connected(self, stop: Event) -> None:
        """Find topics and copy them, again and again, until an error or `stop`."""
        with ConnectionPool(self._source) as source, ConnectionPool(self._target) as target:
            topics = TopicSync(self.settings, source, target, self._flows)
            self.plan = topics.refresh()
            while not stop.is_set():
                self._copy(topics, stop)

    def _copy(self, topics: TopicSync, stop: Event) -> None:
        """Copy the present plan until there is another one."""
        interval = self.settings.seconds("refresh.topics")
        due = [time.monotonic() + interval] if interval is not None else []

        def ends() -> bool:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            if stop.is_set():
                return True
            if not due or time.monotonic() < due[0] or interval is None:
                return False
            due[0] = time.monotonic() + interval
            return self._changed(topics)

        copier = Copier(
            self.name,
            self._source,
            self._target,
            figures=self._figures,
            syncs=self._syncs,
            stopped=self._stopped,
        )
        try:
            _log.info("mirror_flow_started", flow=self.name, topics=len(self.plan.topics))
            copier.run(self.plan, ends)
        except ProducerFenced as error:
            if copier.writer.is_replaced():
                raise FlowReplaced(
                    f"another process copies {self.name} now, so this one ends: run one process "
                    "per flow"
                ) from error
            raise
        finally:
            copier.close()

    def _changed(self, topics: TopicSync) -> bool:
        """Look for topics; return whether there is something else to copy now."""
        plan = topics.refresh()
        if plan == self.plan and not topics.created:
            return False
        for partition in list(self._stopped):
            remote = self.settings.policy.remote_topic(self.settings.source, partition.topic)
            if remote in topics.created:
                del self._stopped[partition]
        self._figures.stopped(self._stopped)
        self.plan = plan
        return True
