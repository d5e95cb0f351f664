"""The profiles of the visitors: a country for each, known once they have signed up."""

from bisect import bisect_right
from itertools import accumulate
from zlib import crc32

from headrace.demo.activity import Activity
from headrace.demo.topic import PROFILES

_SHARES = {"DE": 24, "FR": 17, "GB": 15, "IT": 11, "ES": 10, "PL": 8, "NL": 6, "SE": 5, "PT": 4}
COUNTRIES = tuple(_SHARES)
_BOUNDS = tuple(accumulate(_SHARES.values()))


def country_of(user: str) -> str:
    """Return the country of a user, always the same; the first countries have more users.

    >>> country_of("user-0007") == country_of("user-0007")
    True
    """
    return COUNTRIES[bisect_right(_BOUNDS, crc32(user.encode()) % _BOUNDS[-1])]


def profile(user: str, at_ms: int) -> Activity:
    """Return the record of a sign-up."""
    return Activity(PROFILES, user, at_ms, {"country": country_of(user)})
