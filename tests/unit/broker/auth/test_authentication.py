"""Where the users of PLAIN come from, and how long a session lasts."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.broker.auth.authentication import Authentication
from headrace.broker.auth.session import Attempt, Failure, Session
from headrace.broker.config.listener import Listener
from headrace.broker.config.settings import BrokerSettings
from headrace.model.clock import ManualClock
from headrace.model.error import ConfigError, PeerError


def test_plain_needs_its_users() -> None:
    settings = BrokerSettings({"sasl.enabled.mechanisms": "PLAIN"})

    with pytest.raises(ConfigError, match=r"headrace\.sasl\.plain\.users\.file"):
        Authentication(settings, ManualClock())


def test_plain_reads_its_users_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text("anna=secret\n")
    settings = BrokerSettings(
        {"sasl.enabled.mechanisms": "PLAIN", "headrace.sasl.plain.users.file": str(path)}
    )

    authentication = Authentication(settings, ManualClock())

    assert authentication.users is not None
    assert authentication.users.passwords == {"anna": "secret"}


@dataclass
class Peer:
    """A client on a listener that asks for SASL."""

    listener: Listener
    peer_host: str = "127.0.0.1"
    principal: str = "User:ANONYMOUS"
    authenticated: bool = False
    authentication: Attempt | Failure | Session | None = None

    def begin_authentication(self, attempt: Attempt) -> None:
        self.authentication = attempt

    def authenticate(self, principal: str, session: Session) -> None:
        self.principal, self.authentication, self.authenticated = principal, session, True

    def refuse_authentication(self) -> None:
        self.authentication = Failure()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def authentication(tmp_path: Path, clock: ManualClock) -> Authentication:
    path = tmp_path / "users"
    path.write_text("anna=secret\n")
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(path),
        "connections.max.reauth.ms": "400",
    }
    return Authentication(BrokerSettings(settings), clock)


@pytest.fixture
def anna(authentication: Authentication) -> Peer:
    peer = Peer(Listener.parse("SASL_PLAINTEXT://127.0.0.1:0"))
    log_in(authentication, peer)
    return peer


def log_in(authentication: Authentication, peer: Peer) -> None:
    authentication.begin(peer, "PLAIN", raw=False)
    assert isinstance(peer.authentication, Attempt)
    authentication.respond(peer, peer.authentication, b"\0anna\0secret")


def test_a_session_ends(authentication: Authentication, clock: ManualClock, anna: Peer) -> None:
    clock.advance(400)
    authentication.check_session(anna)
    clock.advance(1)

    with pytest.raises(PeerError, match="the session of User:anna ended"):
        authentication.check_session(anna)


def test_a_handshake_alone_keeps_no_session(authentication: Authentication, anna: Peer) -> None:
    authentication.begin(anna, "PLAIN", raw=False)

    with pytest.raises(PeerError, match="before it had authenticated again"):
        authentication.check_session(anna)


def test_a_client_that_authenticates_again_goes_on(
    authentication: Authentication, clock: ManualClock, anna: Peer
) -> None:
    clock.advance(300)
    log_in(authentication, anna)
    clock.advance(300)

    authentication.check_session(anna)
