"""What the demo shows at one moment."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pulse:
    """A still picture; whoever draws it needs nothing else.

    Attributes:
        written: views the site has told so far.
        counted: how many of them the stream has read.
        batch_ms: how long the stream's last batch took, None before the first.
        pages: views per page in the newest window that is over.
        before: the same, one window earlier.
        window_seconds: how long a window is.
        seconds_left: until the end of a bounded run, otherwise None.
    """

    address: str
    running_seconds: float
    written: int
    counted: int
    batch_ms: int | None
    window_seconds: int
    seconds_left: float | None = None
    pages: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
