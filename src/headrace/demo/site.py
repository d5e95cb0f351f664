"""A website with visitors: some pages are loved, one is rising, one fails now and then.

Everything comes from one seed, so the same site lives the same life again.
"""

import math
import random
from collections.abc import Iterator
from itertools import accumulate

from headrace.demo.page_view import PageView

PAGES = (
    *("/", "/search", "/products", "/products/kettle", "/products/lamp", "/products/chair"),
    *("/cart", "/checkout", "/account", "/help", "/blog", "/blog/slow-tea", "/blog/light"),
    *("/blog/why-water-flows-down", "/jobs", "/press", "/legal", "/status", "/about", "/contact"),
)
RISING = "/blog/why-water-flows-down"
FAILING = "/checkout"

_USERS = 5_000
# Popularity falls with rank as it does on real sites (Zipf).
_SKEW = 1.1
# A day of the site's life, its busy and its quiet hours, takes two minutes here.
_DAY_MS = 120_000
_RHYTHM = 0.4
_RISE_MS = 60_000
_RISING_TIMES = 12.0
_FAILURE_SHARE = 0.2
# Visitors' clocks and networks: a view may be told a little after its time.
_LATEST_MS = 2_000


class Site:
    """Makes page views for moments that follow each other.

    Example:
        site = Site(seed=7, per_second=500)
        for view in site.views(from_ms=0, to_ms=1_000):
            print(view.page)
    """

    def __init__(self, *, seed: int, per_second: float) -> None:
        self._random = random.Random(seed)
        self._per_second = per_second
        self._born_ms: int | None = None
        self._owed = 0.0
        self._users = [f"user-{number:04}" for number in range(_USERS)]

    def views(self, *, from_ms: int, to_ms: int) -> Iterator[PageView]:
        """What happened between two moments, in the order in which it is told."""
        if self._born_ms is None:
            self._born_ms = from_ms
        age_ms = from_ms - self._born_ms
        busy = 1 + _RHYTHM * math.sin(2 * math.pi * age_ms / _DAY_MS)
        self._owed += self._per_second * busy * (to_ms - from_ms) / 1_000
        count = int(self._owed)
        self._owed -= count
        pages = self._random.choices(PAGES, cum_weights=_weights(age_ms), k=count)
        # In order: after a pause (a laptop that slept) much lies between the two moments, and views
        # that come far behind younger ones are too late to be counted.
        past_ms = max(to_ms, from_ms + 1)
        told = sorted(self._random.randrange(from_ms, past_ms) for _ in pages)
        for page, told_ms in zip(pages, told, strict=True):
            yield self._view(page, told_ms)

    def _view(self, page: str, told_ms: int) -> PageView:
        failed = page == FAILING and self._random.random() < _FAILURE_SHARE
        return PageView(
            page=page,
            # A few visitors come often: the square of a uniform number leans to the low ones.
            user=self._users[int(self._random.random() ** 2 * _USERS)],
            at_ms=told_ms - self._random.randrange(_LATEST_MS),
            status=500 if failed else 200,
        )


def _weights(age_ms: int) -> list[float]:
    rise = 1 + _RISING_TIMES * min(age_ms / _RISE_MS, 1.0)
    return list(
        accumulate(
            (rise if page == RISING else 1.0) / rank**_SKEW for rank, page in enumerate(PAGES, 1)
        )
    )
