"""What can go wrong between a topic and a table."""

import re
from typing import Final

from headrace.model.error import HeadraceError

_USER: Final = re.compile(r"://[^/\s]*@")


def without_login(sentence: str) -> str:
    """Return another library's sentence, with URLs that have no user and password.

    >>> without_login("no answer of postgresql://ada:secret@db/lake")
    'no answer of postgresql://db/lake'
    """
    return _USER.sub("://", sentence)


class LandingError(HeadraceError):
    """A topic cannot be landed in a table: the message says why, and what to do."""


class TableConflict(LandingError):
    """Another commit came first. Nothing of ours was committed: read the table and decide."""


class TableUnavailable(LandingError):
    """The table or its catalog does not answer. Whether the commit happened is not known."""


class AnotherLanding(LandingError):
    """The table's offsets are not those that this process committed: another one lands too."""


class RecordsLost(LandingError):
    """The topic no longer has records that the table lacks."""
