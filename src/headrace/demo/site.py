"""A simulated website: some pages are popular, one is rising, one fails for a while.

Everything comes from one seed, so that the same seed gives the same visits again.
"""

import math
import random
from collections.abc import Iterator
from itertools import accumulate

from headrace.demo.activity import Activity
from headrace.demo.page_view import PageView
from headrace.demo.profile import profile
from headrace.demo.topic import IMPRESSIONS, SEARCHES

PAGES = (
    *("/", "/search", "/products", "/products/kettle", "/products/lamp", "/products/chair"),
    *("/cart", "/checkout", "/account", "/help", "/blog", "/blog/slow-tea", "/blog/light"),
    *("/blog/why-water-flows-down", "/jobs", "/press", "/legal", "/status", "/about", "/contact"),
)
RISING = "/blog/why-water-flows-down"
FAILING = "/checkout"

_USERS = 2_000
# Popularity falls with rank as it does on real sites (Zipf).
_SKEW = 1.1
# A day with its busy and quiet hours takes two minutes here.
_DAY_MS = 120_000
_RHYTHM = 0.4
_RISE_MS = 60_000
_RISING_TIMES = 12.0
# The failing page fails often for a while, then rarely.
_BAD_SHARE = 0.5
_WELL_SHARE = 0.02
_BAD_MS = 20_000
_EPISODE_MS = 50_000
_SIGN_UP_SHARE = 0.05
_WORDS = ("lamp", "kettle", "chair", "tea", "light", "delivery", "returns", "gift", "oak", "linen")
# Visitors' clocks and networks differ: a view may be written a little after its time.
_LATEST_MS = 2_000


class Site:
    """Generates the page views of consecutive moments.

    Example:
        site = Site(seed=7, per_second=500)
        for view in site.views(from_ms=0, to_ms=1_000):
            print(view.page)
    """

    def __init__(self, *, seed: int, per_second: float) -> None:
        self._random = random.Random(seed)
        self._per_second = per_second
        self._opened_ms: int | None = None
        self._owed = 0.0
        self._users = [f"user-{number:04}" for number in range(_USERS)]

    def views(self, *, from_ms: int, to_ms: int) -> Iterator[PageView]:
        """Yield the views between two moments, in the order in which they are written."""
        if self._opened_ms is None:
            self._opened_ms = from_ms
        age_ms = from_ms - self._opened_ms
        busy = 1 + _RHYTHM * math.sin(2 * math.pi * age_ms / _DAY_MS)
        self._owed += self._per_second * busy * (to_ms - from_ms) / 1_000
        count = int(self._owed)
        self._owed -= count
        pages = self._random.choices(PAGES, cum_weights=_weights(age_ms), k=count)
        # Sorted: after a pause (a laptop that slept) the two moments are far apart, and a view that
        # is written long after newer ones is too late to be counted.
        past_ms = max(to_ms, from_ms + 1)
        written = sorted(self._random.randrange(from_ms, past_ms) for _ in pages)
        failing = _BAD_SHARE if age_ms % _EPISODE_MS < _BAD_MS else _WELL_SHARE
        for page, written_ms in zip(pages, written, strict=True):
            yield self._view(page, written_ms, failing)

    def members(self, at_ms: int) -> list[Activity]:
        """Return the profiles of users who had signed up before the site opened."""
        return [profile(user, at_ms) for user in self._users]

    def besides(self, view: PageView) -> Iterator[Activity]:
        """Yield what comes with a view: a search, an impression, sometimes a sign-up."""
        if view.page == "/search":
            words = " ".join(self._random.choices(_WORDS, k=self._random.randint(1, 3)))
            yield Activity(SEARCHES, view.user, view.at_ms, {"words": words})
        elif view.page.startswith("/products"):
            shown = self._random.choice(PAGES[3:6])
            yield Activity(IMPRESSIONS, view.user, view.at_ms, {"item": shown, "on": view.page})
        elif view.page == "/account" and self._random.random() < _SIGN_UP_SHARE:
            self._users.append(f"user-{len(self._users):04}")
            yield profile(self._users[-1], view.at_ms)

    def _view(self, page: str, written_ms: int, failing: float) -> PageView:
        failed = page == FAILING and self._random.random() < failing
        return PageView(
            page=page,
            # A few visitors come often: the square of a uniform number leans to the low ones.
            user=self._users[int(self._random.random() ** 2 * len(self._users))],
            at_ms=written_ms - self._random.randrange(_LATEST_MS),
            status=500 if failed else 200,
        )


def _weights(age_ms: int) -> list[float]:
    rise = 1 + _RISING_TIMES * min(age_ms / _RISE_MS, 1.0)
    return list(
        accumulate(
            (rise if page == RISING else 1.0) / rank**_SKEW for rank, page in enumerate(PAGES, 1)
        )
    )
