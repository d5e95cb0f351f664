"""The status of the demo at one moment."""

from collections import Counter
from dataclasses import dataclass, field

from headrace.demo.demo_audit import AuditStatus
from headrace.demo.trend import Trend


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """One Spark query.

    Attributes:
        read: the sum of the offsets that it has read up to.
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
class DemoStatus:
    """Everything that the dashboard draws.

    Attributes:
        written: how many views the site has written so far.
        console: the URL of the console, or empty.
        flows: the Spark queries.
        trend: views per page, now and one window earlier.
        countries: views per country so far.
        alerts: the newest last.
        audit: whether everything that was written arrived.
        window_seconds: how long a window is.
        seconds_left: until the end of a bounded run, otherwise None.
    """

    address: str
    running_seconds: float
    written: int
    window_seconds: int
    console: str = ""
    flows: tuple[QueryStatus, ...] = ()
    seconds_left: float | None = None
    trend: Trend = field(default_factory=Trend)
    countries: Counter[str] = field(default_factory=Counter)
    alerts: tuple[Alert, ...] = ()
    audit: AuditStatus | None = None
