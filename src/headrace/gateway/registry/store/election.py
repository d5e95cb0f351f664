"""Which instance writes: the leader, elected through a consumer group of the brokers.

Rule 1: the leader is sure of its lead for as long as the coordinator cannot have given it away:
for the session timeout, from the sending of the last heartbeat that was answered. Past that it
writes nothing until it has joined again.
Rule 2: a rebalance makes a new term, also for the same leader.
"""

import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from headrace.client.error import ClientError, error_of
from headrace.client.network.connection import BrokerConnection
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.store.identity import (
    DUPLICATE_URLS,
    PROTOCOL_NAME,
    PROTOCOL_TYPE,
    Identity,
    assign,
    pack_identity,
    read_assignment,
)
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

SESSION_TIMEOUT_MS: Final = 10_000
_REBALANCE_TIMEOUT_MS: Final = 30_000
_RETRY_SECONDS: Final = 0.5
_JOIN_AGAIN: Final = frozenset(
    {
        ErrorCode.rebalance_in_progress,
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
        ErrorCode.member_id_required,
    }
)


@dataclass(frozen=True, slots=True)
class Lead:
    """Who leads at the moment.

    Attributes:
        leader: None while that is not known.
        term: changes with every rebalance.
        until: the moment of `time.monotonic` up to which this is sure.
    """

    leader: Identity | None = None
    term: tuple[str, int] = ("", -1)
    until: float = 0.0


class Election:
    """A thread that is a member of the group. Threads: `lead` may be read in any."""

    def __init__(
        self,
        settings: ClientSettings,
        group: str,
        identity: Identity,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self._settings = settings
        self._group = group
        self.identity = identity
        self._session_ms = session_timeout_ms
        self._member_id = ""
        self._generation = -1
        self.lead = Lead()
        self._stopping = threading.Event()
        self._decided = threading.Condition()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="registry-election", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, so that another instance leads at once."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    @property
    def leads(self) -> bool:
        """Whether this instance leads, and surely so."""
        lead = self.lead
        return lead.leader == self.identity and time.monotonic() < lead.until

    def wait_for_leader(self, seconds: float) -> Lead:
        """Return who leads; wait for an election that is under way."""
        with self._decided:
            self._decided.wait_for(self._is_known, seconds)
        return self.lead

    def _is_known(self) -> bool:
        lead = self.lead
        if lead.leader is None:
            return False
        return lead.leader != self.identity or time.monotonic() < lead.until

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with ConnectionPool(self._settings) as pool:
                    self._take_part(pool)
            except ClientError as error:
                self._report(error)
            except Exception:  # without this thread nothing is written
                log.exception("registry_election_failed")
            self._set(Lead())
            self._stopping.wait(_RETRY_SECONDS)

    def _report(self, error: ClientError) -> None:
        """Log the first failure of an outage."""
        if not self._failing:
            self._failing = True
            log.warning("registry_election_interrupted", error=str(error))

    def _take_part(self, pool: ConnectionPool) -> None:
        try:
            while not self._stopping.is_set():
                self._join(pool)
                self._failing = False
                while not self._stopping.wait(self._session_ms / 3 / 1000):
                    if not self._beat(pool):
                        break
        finally:
            if self._stopping.is_set():
                self._leave(pool)

    def _join(self, pool: ConnectionPool) -> None:
        while not self._stopping.is_set():
            joined = self._call(pool, ApiKey.JOIN_GROUP, self._join_body(), _REBALANCE_TIMEOUT_MS)
            if joined.member_id:
                self._member_id = joined.member_id
            if self._must_join(joined.error_code):
                continue
            self._generation = joined.generation_id
            members = {each.member_id: each.metadata for each in joined.members}
            shares = []
            if joined.leader == self._member_id:
                decision = assign(members)
                shares = [{"member_id": each, "assignment": decision} for each in members]
            sent = time.monotonic()
            body = {
                "group_id": self._group,
                "generation_id": self._generation,
                "member_id": self._member_id,
                "protocol_type": PROTOCOL_TYPE,
                "protocol_name": PROTOCOL_NAME,
                "assignments": shares,
            }
            synced = self._call(pool, ApiKey.SYNC_GROUP, body, _REBALANCE_TIMEOUT_MS)
            if self._must_join(synced.error_code):
                continue
            self._decide(synced.assignment, sent)
            return

    def _decide(self, assignment: bytes, sent: float) -> None:
        try:
            decision = read_assignment(assignment)
        except ValueError as error:
            log.error("registry_assignment_unreadable", error=str(error))
            self._set(Lead())
            return
        if decision.error == DUPLICATE_URLS:
            log.error(
                "registry_addresses_equal",
                hint="two instances have the same address: give each its own --advertise",
            )
        leader = decision.leader
        if leader is not None and (leader.host, leader.port) == (
            self.identity.host,
            self.identity.port,
        ):
            leader = self.identity
        term = (self._member_id, self._generation)
        if leader != self.lead.leader:
            log.info(
                "registry_leader_elected",
                leader=None if leader is None else leader.url,
                own=leader == self.identity,
            )
        self._set(Lead(leader, term, sent + self._session_ms / 1000))

    def _beat(self, pool: ConnectionPool) -> bool:
        """Send a heartbeat; return whether the assignment still holds."""
        sent = time.monotonic()
        body = {
            "group_id": self._group,
            "generation_id": self._generation,
            "member_id": self._member_id,
        }
        answer = self._call(pool, ApiKey.HEARTBEAT, body)
        if self._must_join(answer.error_code):
            if answer.error_code is not ErrorCode.rebalance_in_progress:
                self._set(Lead())
            return False
        self._set(replace(self.lead, until=sent + self._session_ms / 1000))
        return True

    def _leave(self, pool: ConnectionPool) -> None:
        if not self._member_id:
            return
        body = {
            "group_id": self._group,
            "member_id": self._member_id,
            "members": [{"member_id": self._member_id}],
        }
        try:
            self._call(pool, ApiKey.LEAVE_GROUP, body)
        except ClientError:
            return  # the coordinator removes this member when its session times out

    def _set(self, lead: Lead) -> None:
        with self._decided:
            self.lead = lead
            self._decided.notify_all()

    def _join_body(self) -> dict[str, Any]:
        return {
            "group_id": self._group,
            "session_timeout": self._session_ms,
            "rebalance_timeout": _REBALANCE_TIMEOUT_MS,
            "member_id": self._member_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [{"name": PROTOCOL_NAME, "metadata": pack_identity(self.identity)}],
        }

    def _must_join(self, code: ErrorCode) -> bool:
        """Return whether to join again.

        Raises:
            BrokerError: joining again would not help at once.
        """
        if code is ErrorCode.unknown_member_id:
            self._member_id = ""
        if code in _JOIN_AGAIN:
            return True
        error = error_of(code)
        if error is not None:
            raise error
        return False

    def _call(
        self, pool: ConnectionPool, api: ApiKey, body: dict[str, Any], wait_ms: int = 0
    ) -> Any:
        def call(connection: BrokerConnection) -> Any:
            return connection.call(api, body, wait_ms=wait_ms)

        return pool.on_coordinator(self._group, call, lambda answer: [answer.error_code])
