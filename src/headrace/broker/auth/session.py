"""How far SASL is on a connection: first an attempt, then a session or a failure."""

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
    """The attempt failed: the connection takes no more requests and is being closed."""


@dataclass(frozen=True, slots=True)
class Session:
    """An authenticated client.

    Attributes:
        ends_ms: when the client must have authenticated again; None when it need not.
    """

    mechanism: str
    ends_ms: int | None
