"""What a connection keeps as its `authentication`: first an attempt, then what it led to."""

from dataclasses import dataclass

from headrace.broker.auth.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Attempt:
    """Between SaslHandshake and the last token.

    Attributes:
        raw: tokens come as frames of their own, without a header, as clients that speak version 0
            of SaslHandshake send them; otherwise inside SaslAuthenticate requests.
    """

    mechanism: str
    exchange: Exchange
    raw: bool


class Failure:
    """The attempt failed. Nothing more is taken on this connection while it is being closed."""


@dataclass(frozen=True, slots=True)
class Session:
    """An authenticated client; None as the end is a session without one."""

    mechanism: str
    ends_ms: int | None
