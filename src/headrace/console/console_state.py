"""Everything that the routes of a running console share."""

from dataclasses import dataclass, replace
from typing import Final

from headrace.console.access.session import Sessions
from headrace.console.change_log import ChangeLog
from headrace.console.cluster_client import ClusterClient
from headrace.console.message.payload_renderer import PayloadRenderer
from headrace.console.message.schema_cache import SchemaCache
from headrace.console.settings import ConsoleSettings
from headrace.console.status.audit_counts import AuditCounts
from headrace.console.status.cluster_poller import ClusterPoller
from headrace.console.status.mirror_poller import MirrorPoller
from headrace.console.status.remote_run_poller import RemoteRunPoller
from headrace.console.status.status_poller import StatusPoller
from headrace.console.status.stream_poller import StreamPoller
from headrace.console.status.table_poller import TablePoller
from headrace.flow.monitoring.run_folder import RunFolder
from headrace.flow.remote.remote_run import runs_elsewhere
from headrace.flow.remote.running_flow import LocalFlow, RemoteFlow, RunningFlow
from headrace.model.clock import Clock, SystemClock
from headrace.serde.registry_client import RegistryClient

# A page waits for an answer no longer than this, whatever a client in a program would do.
_REGISTRY_MS: Final = 5_000


@dataclass(slots=True)
class ConsoleState:
    """One per console.

    Attributes:
        cluster: connections for requests that ask the cluster something now.
        cluster_poller: the last snapshot of the cluster, and its history.
        status_poller: the last status of the flows and agents.
        remote_run_poller: the flows of other machines, for it.
        stream_poller: the streams of the Kinesis gateway.
        mirror_poller: how far the flows between clusters are.
        table_poller: the tables that topics land in.
        registry: the schema registry, for the Schemas page; None without one.
        schema_cache: finds the schemas of values in it.
        sessions: None while the console has no users file.
        stopping: set when the console shuts down; long responses end then.
    """

    settings: ConsoleSettings
    clock: Clock
    cluster: ClusterClient
    cluster_poller: ClusterPoller
    changes: ChangeLog
    audit: AuditCounts
    status_poller: StatusPoller
    remote_run_poller: RemoteRunPoller
    stream_poller: StreamPoller
    mirror_poller: MirrorPoller
    table_poller: TablePoller
    registry: RegistryClient | None
    schema_cache: SchemaCache | None
    sessions: Sessions | None
    stopping: bool = False

    @classmethod
    def of(cls, settings: ConsoleSettings, clock: Clock | None = None) -> "ConsoleState":
        clock = clock or SystemClock()
        audit = AuditCounts(settings.client, clock, settings.audit_topic)
        remote = RemoteRunPoller(settings.client, clock, settings.interval_seconds)
        cluster_poller = ClusterPoller(
            settings.client,
            interval_seconds=settings.interval_seconds,
            clock=clock,
            after_poll=audit.read_new,
        )
        registry, schema_cache = None, None
        if (asked := settings.registry) is not None:
            timeout_ms = min(asked.timeout_ms, _REGISTRY_MS)
            registry = RegistryClient(replace(asked, timeout_ms=timeout_ms))
            schema_cache = SchemaCache(registry)
        return cls(
            settings=settings,
            clock=clock,
            cluster=ClusterClient(settings.client),
            cluster_poller=cluster_poller,
            audit=audit,
            status_poller=StatusPoller(
                settings.agents,
                settings.flows,
                clock,
                settings.interval_seconds,
                lambda: remote.runs,
            ),
            remote_run_poller=remote,
            stream_poller=StreamPoller(
                settings.client, settings.interval_seconds, lambda: cluster_poller.snapshot
            ),
            mirror_poller=MirrorPoller(settings.mirrors, clock, settings.interval_seconds),
            table_poller=TablePoller(
                settings.client, clock, settings.interval_seconds, lambda: cluster_poller.snapshot
            ),
            changes=ChangeLog(settings.client, clock, settings.changes_topic),
            registry=registry,
            schema_cache=schema_cache,
            sessions=None if settings.users is None else Sessions(clock),
        )

    def renderer(self, topic: str) -> PayloadRenderer:
        """Return what renders records of a topic for one page."""
        settings = self.settings
        return PayloadRenderer(
            settings.masks.of(topic), settings.schemas.get(topic), self.schema_cache, topic
        )

    def running_flows(self) -> list[RunningFlow]:
        """Return the flows that can be changed: those of this machine, then those that report to
        the brokers from others."""
        folder, poller = RunFolder(), self.remote_run_poller
        here = [LocalFlow(folder, each) for each in folder.runs()]
        runs = runs_elsewhere(poller.runs, [each.run for each in here])
        elsewhere = [RemoteFlow(poller.control, each) for each in runs]
        return [*here, *elsewhere]

    def start(self) -> None:
        self.cluster_poller.start()
        self.remote_run_poller.start()
        self.stream_poller.start()
        if self.mirror_poller.is_needed:
            self.mirror_poller.start()
        self.table_poller.start()
        self.status_poller.start()

    def close(self) -> None:
        self.stopping = True
        self.status_poller.stop()
        self.remote_run_poller.stop()
        self.stream_poller.stop()
        self.mirror_poller.stop()
        self.table_poller.stop()
        self.cluster_poller.stop()
        self.audit.close()
        self.cluster.close()
        if self.registry is not None:
            self.registry.close()
