"""What the demo shows at one moment."""

from collections import Counter
from dataclasses import dataclass, field

from headrace.demo.audit_board import AuditPulse
from headrace.demo.trend import Trend


@dataclass(frozen=True, slots=True)
class FlowPulse:
    """One Spark query.

    Attributes:
        read: how many records lie before the place it has read up to.
        batch_ms: how long its last batch took, None before the first.
    """

    name: str
    read: int
    batch_ms: int | None


@dataclass(frozen=True, slots=True)
class Alert:
    page: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """A still picture; whoever draws it needs nothing else.

    Attributes:
        written: views the site has told so far.
        console: where the console is to be seen, or empty.
        flows: the Spark queries.
        trend: views per page, now and one window earlier.
        countries: views per country so far.
        alerts: the newest last.
        audit: whether all that was told arrived.
        window_seconds: how long a window is.
        seconds_left: until the end of a bounded run, otherwise None.
    """

    address: str
    running_seconds: float
    written: int
    window_seconds: int
    console: str = ""
    flows: tuple[FlowPulse, ...] = ()
    seconds_left: float | None = None
    trend: Trend = field(default_factory=Trend)
    countries: Counter[str] = field(default_factory=Counter)
    alerts: tuple[Alert, ...] = ()
    audit: AuditPulse | None = None
