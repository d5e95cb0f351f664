"""Everything the routes share, made once for a running console."""

from dataclasses import dataclass

from headrace.console.audit_desk import AuditDesk
from headrace.console.change_log import ChangeLog
from headrace.console.cluster import Cluster
from headrace.console.neighbourhood import Neighbourhood
from headrace.console.payload import Painter
from headrace.console.session import Sessions
from headrace.console.settings import ConsoleSettings
from headrace.console.watch import Watch
from headrace.model.clock import Clock, SystemClock


@dataclass(slots=True)
class Desk:
    settings: ConsoleSettings
    clock: Clock
    cluster: Cluster
    watch: Watch
    changes: ChangeLog
    audit: AuditDesk
    neighbours: Neighbourhood
    sessions: Sessions | None
    stopping: bool = False

    @classmethod
    def of(cls, settings: ConsoleSettings, clock: Clock | None = None) -> "Desk":
        clock = clock or SystemClock()
        audit = AuditDesk(settings.client, clock, settings.audit_topic)
        return cls(
            settings=settings,
            clock=clock,
            cluster=Cluster(settings.client),
            watch=Watch(
                settings.client,
                interval_seconds=settings.interval_seconds,
                clock=clock,
                also=audit.take,
            ),
            audit=audit,
            neighbours=Neighbourhood(
                settings.agents, settings.flows, clock, settings.interval_seconds
            ),
            changes=ChangeLog(settings.client, clock, settings.changes_topic),
            sessions=None if settings.users is None else Sessions(clock),
        )

    def painter(self, topic: str) -> Painter:
        return Painter(self.settings.masks.of(topic), self.settings.schemas.get(topic))

    def start(self) -> None:
        self.watch.start()
        self.neighbours.start()

    def close(self) -> None:
        self.stopping = True
        self.neighbours.stop()
        self.watch.stop()
        self.audit.close()
        self.cluster.close()
