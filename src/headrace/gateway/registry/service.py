"""One instance of the registry: the state, the election, and how a write is made.

A write is planned from the state, appended to the topic, and answered when it was read back. Only
the leader does so, one write at a time; the others send writes on to it.

Rule 1: a write is planned twice: first without the lock of writers, which refuses wrong ones and
does the parsing and comparing, then under it, when all of that is remembered. So a large schema
does not hold up the writes of others.
Rule 2: reads are answered from memory, by every instance. An instance that has sent a write on
answers when its own state has it too, or after `_SEEN_SECONDS`.
Rule 3: the leader corrects late records on its own, within `_CORRECT_SECONDS`: a registry that
knows no claims reads a wrong value until then.
Rule 4: where the topic is a mirror of another cluster's, its leader there writes and corrects. What
changes nothing is answered as ever, such as a schema registered again.
"""

import socket
import threading
import time
from dataclasses import replace
from typing import Any, Final

import structlog

from headrace import __version__
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.gateway.registry.access.peer import read_peers
from headrace.gateway.registry.batch import write_parts
from headrace.gateway.registry.checker import SchemaChecker
from headrace.gateway.registry.error import TopicIsMirror, timed_out, unknown_leader
from headrace.gateway.registry.forwarder import ForwardedAnswer, Forwarder
from headrace.gateway.registry.operation.table import Route
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.settings import RegistrySettings
from headrace.gateway.registry.store.election import Election
from headrace.gateway.registry.store.identity import Identity
from headrace.gateway.registry.store.schema_tail import SchemaTail
from headrace.gateway.registry.store.schema_topic import (
    create_schema_topic,
    wait_for_schema_topic,
)
from headrace.gateway.registry.store.schema_writer import NotLeading, SchemaWriter
from headrace.gateway.registry.view import RegistryView

log = structlog.get_logger()

_START_SECONDS: Final = 120.0
_LEADER_SECONDS: Final = 20.0
_LOCK_SECONDS: Final = 60.0
_SEEN_SECONDS: Final = 10.0
_MIRROR_SECONDS: Final = 2.0
"""How long writes that change nothing are answered without trying to write to a mirror topic."""
_CORRECT_SECONDS: Final = 0.5
_FAILED_SECONDS: Final = 30.0
_TRIES: Final = 4


class RegistryService:
    """Threads: any. `start` and `stop` frame its life.

    Args:
        port: where it listens in fact, for the others.
    """

    def __init__(self, settings: RegistrySettings, port: int) -> None:
        self._settings = settings
        self._tail = SchemaTail(settings.client, settings.topic)
        self._writer = SchemaWriter(settings.client, settings.topic, self._tail)
        self._write_lock = threading.Lock()
        # Until then its topic is taken for a mirror, as it was when it was last written to.
        self._mirror_until = 0.0
        peers = read_peers(settings.peers, tls=settings.certificate is not None)
        self._forwarder = Forwarder(
            settings.certificate_authority, None if settings.users is None else peers
        )
        self.election = Election(
            settings.client,
            settings.group,
            identity_of(settings, port),
            settings.session_timeout_ms,
        )
        self._stopping = threading.Event()
        self._corrections = threading.Thread(
            target=self._correct, name="registry-corrections", daemon=True
        )
        self.view = RegistryView(self._tail.read, SchemaChecker())

    def start(self) -> None:
        """Create the topic if need be, read it, and join the other instances.

        Raises:
            ConfigError: the topic cannot be used.
            ClientError: no broker can be reached.
        """
        if self._settings.waits_for_topic:
            wait_for_schema_topic(self._settings.client, self._settings.topic)
        create_schema_topic(self._settings.client, self._settings.topic)
        self._tail.start(_START_SECONDS)
        self.view = replace(
            self.view,
            about={
                "cluster": self._cluster_id(),
                "group": self._settings.group,
                "version": __version__,
            },
        )
        self.election.start()
        self._corrections.start()

    def stop(self) -> None:
        self._stopping.set()
        self.election.stop()
        self._tail.stop()
        if self._corrections.ident is not None:
            self._corrections.join(timeout=10)
        with self._write_lock:
            self._writer.close()

    def _correct(self) -> None:
        pause = _CORRECT_SECONDS
        while not self._stopping.wait(pause):
            pause = _CORRECT_SECONDS
            if not self.election.leads or not self._writer.must_correct():
                continue
            try:
                with self._write_lock:
                    if self.election.leads and not self._stopping.is_set():
                        self._writer.lead(self.election.lead.term)
            except NotLeading:
                log.warning("registry_lead_lost")
            except TopicIsMirror:
                pause = _FAILED_SECONDS
            except Exception as error:  # noqa: BLE001 - a later turn or write tries again
                pause = _FAILED_SECONDS  # every try writes a claim
                log.warning("registry_correction_failed", error=repr(error)[:200])

    def _cluster_id(self) -> str:
        try:
            with ConnectionPool(self._settings.client) as pool:
                return pool.metadata(()).cluster_id or ""
        except ClientError:
            return ""

    def write(self, route: Route, request: Request) -> tuple[Any, int] | ForwardedAnswer:
        """Make a write, or have the leader make it.

        Returns:
            What is answered, with the offset of the last record; or what the leader has answered.

        Raises:
            RegistryError: it is refused, or there is no leader.
        """
        deadline = time.monotonic() + _LEADER_SECONDS
        for _ in range(_TRIES):
            lead = self.election.wait_for_leader(deadline - time.monotonic())
            if self.election.leads:
                try:
                    return self._write_here(route, request)
                except NotLeading:
                    log.warning("registry_lead_lost")
                    continue
            if lead.leader is None or lead.leader == self.election.identity:
                break
            if request.is_forwarded:
                break
            return self._forward(lead.leader, request)
        raise unknown_leader("No leader is elected at the moment: try again")

    def _write_here(self, route: Route, request: Request) -> tuple[Any, int]:
        view = self.view.for_request()
        if route.split is None:
            return self._write_one(view, route, request)

        def write(part: Request) -> tuple[Any, int]:
            try:
                return self._write_one(view, route, part)
            except NotLeading:  # what was written stays: only the client can try the rest again
                raise unknown_leader("This instance no longer leads: try again") from None

        return write_parts(route.split(request), write)

    def _write_one(self, view: RegistryView, route: Route, request: Request) -> tuple[Any, int]:
        first_plan = route.serve(view, request)
        if not first_plan.records and time.monotonic() < self._mirror_until:
            return first_plan.answer, self._tail.offset - 1
        if not self._write_lock.acquire(timeout=_LOCK_SECONDS):
            raise timed_out("Too many writes wait for each other")
        try:
            if not self.election.leads:
                raise NotLeading
            try:
                self._writer.lead(self.election.lead.term)
            except TopicIsMirror:
                self._mirror_until = time.monotonic() + _MIRROR_SECONDS
                if first_plan.records:
                    raise
                return first_plan.answer, self._tail.offset - 1
            plan = route.serve(view, request)
            if not plan.records:
                return plan.answer, self._tail.offset - 1
            if not self.election.leads:
                raise NotLeading
            return plan.answer, self._writer.append(plan.records)
        finally:
            self._write_lock.release()

    def _forward(self, leader: Identity, request: Request) -> ForwardedAnswer:
        answer = self._forwarder.forward(leader, request)
        if answer.offset >= 0:
            self._tail.wait_for(answer.offset, _SEEN_SECONDS)
        return answer


def identity_of(settings: RegistrySettings, port: int) -> Identity:
    """Return where the other instances reach this one."""
    scheme = "http" if settings.certificate is None else "https"
    if settings.advertise is not None:
        host, port = settings.advertise
    else:
        host = settings.listen.host
        if host in ("", "0.0.0.0", "::"):  # noqa: S104
            host = socket.gethostname()
    return Identity(host, port, scheme, settings.eligible)
