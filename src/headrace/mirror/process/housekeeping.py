"""What a flow does beside copying: heartbeats, offset syncs, checkpoints, configurations."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final

import structlog

from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.config.replication_policy import HEARTBEATS
from headrace.mirror.format.heartbeat import Heartbeat
from headrace.mirror.format.offset_sync import OffsetSync
from headrace.mirror.process.checkpoint_task import CheckpointTask
from headrace.mirror.process.internal_topic import InternalTopic
from headrace.mirror.process.offset_syncs import OffsetSyncs
from headrace.mirror.process.share import Share
from headrace.mirror.process.topic_sync import TopicSync
from headrace.model.clock import SystemClock
from headrace.model.error import HeadraceError

_log = structlog.get_logger(__name__)
_TICK_SECONDS: Final = 0.2
_SYNC_SECONDS: Final = 0.5
_AFTER_FAILURE_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Task:
    name: str
    seconds: float
    run: Callable[[], None]
    due: float = 0.0
    failing: bool = False


class Housekeeping:
    """Runs the tasks of one flow when they are due, in one thread. A task that fails is said once,
    and tried again later; it stops neither the others nor the copying.

    Args:
        beats_back: also write heartbeats to the source, as the flow the other way would.
        share: returns what this process copies at the moment.
    """

    def __init__(
        self,
        flow: FlowSettings,
        source: ClientSettings,
        target: ClientSettings,
        *,
        syncs: OffsetSyncs,
        share: Callable[[], Share],
        beats_back: bool,
    ) -> None:
        self._flow = flow
        self._share = share
        self._syncs = syncs
        self._source = ConnectionPool(source)
        self._target = ConnectionPool(target)
        self._topics = TopicSync(flow, self._source, self._target)
        self._checkpoints = CheckpointTask(flow, self._source, self._target, syncs)
        self._beats = InternalTopic(self._target, HEARTBEATS, flow.replication_factor)
        self._beats_back = InternalTopic(self._source, HEARTBEATS)
        self._sync_topic = self._offset_sync_topic()
        self._restored_for: Share | None = None
        self._tasks = self._due_tasks(beats_back)

    def run(self, stop: Event) -> None:
        """Run until `stop`."""
        while not stop.wait(_TICK_SECONDS):
            for task in self._tasks:
                if stop.is_set():
                    break
                if time.monotonic() >= task.due:
                    self._run_task(task)
        self._source.close()
        self._target.close()

    def _due_tasks(self, beats_back: bool) -> list[_Task]:
        flow = self._flow
        tasks: list[tuple[str, float | None, Callable[[], None]]] = [
            ("heartbeats", flow.seconds("emit.heartbeats"), self._beat),
            ("groups", flow.seconds("refresh.groups"), self._checkpoints.find_groups),
            ("checkpoints", flow.seconds("emit.checkpoints"), self._write_checkpoints),
            ("group_offsets", flow.seconds("sync.group.offsets"), self._sync_group_offsets),
            (
                "topic_configs",
                flow.seconds("sync.topic.configs"),
                lambda: self._topics.sync_configs(self._share().plan),
            ),
        ]
        if beats_back:
            tasks.append(("heartbeats_back", flow.seconds("emit.heartbeats"), self._beat_back))
        if flow.values["emit.offset-syncs.enabled"]:
            tasks.insert(0, ("offset_syncs", _SYNC_SECONDS, self._write_syncs))
        return [_Task(name, seconds, run) for name, seconds, run in tasks if seconds is not None]

    def _run_task(self, task: _Task) -> None:
        try:
            task.run()
        except HeadraceError as error:
            task.due = time.monotonic() + max(task.seconds, _AFTER_FAILURE_SECONDS)
            if not task.failing:
                _log.warning(
                    "mirror_task_failed", flow=self._flow.name, task=task.name, error=str(error)
                )
            task.failing = True
            return
        task.failing = False
        task.due = time.monotonic() + task.seconds

    # -- heartbeats

    def _beat(self) -> None:
        beat = Heartbeat(self._flow.source, self._flow.target, SystemClock().wall_ms())
        self._beats.write([(beat.key(), beat.value())])

    def _beat_back(self) -> None:
        beat = Heartbeat(self._flow.target, self._flow.source, SystemClock().wall_ms())
        self._beats_back.write([(beat.key(), beat.value())])

    # -- offsets

    def _offset_sync_topic(self) -> InternalTopic:
        flow = self._flow
        if flow.syncs_at_source:
            return InternalTopic(self._source, flow.policy.offset_syncs_topic(flow.target))
        name = flow.policy.offset_syncs_topic(flow.source)
        return InternalTopic(self._target, name, flow.replication_factor)

    def _write_syncs(self) -> None:
        share = self._share()
        if share is not self._restored_for:
            self._restore()
            self._restored_for = share
        pending = self._syncs.drain()
        try:
            self._sync_topic.write([(each.key(), each.value()) for each in pending])
        except HeadraceError:
            self._syncs.put_back(pending)
            raise

    def _restore(self) -> None:
        """Read the syncs that others wrote, so that older offsets can be translated."""
        self._sync_topic.create()
        self._syncs.restore(
            OffsetSync.read(record.key, record.value)
            for record in self._sync_topic.read()
            if record.value is not None
        )

    def _write_checkpoints(self) -> None:
        self._checkpoints.write(self._share().pairs)

    def _sync_group_offsets(self) -> None:
        self._checkpoints.sync_offsets(self._share().pairs)
