"""Whether rows may still be written as they are: in plain text, while there is no key for them.

A permit is asked for right before rows are sent, and again before they are sent again: a view of
the streams that allowed it a while ago may be old.
"""

from collections.abc import Callable, Iterable

from headrace.client.error import ClientError

Permit = Callable[[], bool | None]
"""Returns whether rows may be sent at this moment; None if that is not known now."""


class PermitEnded(ClientError):
    """Rows may not be written as they are any more, and have not been."""


def verdict(permits: Iterable[Permit | None]) -> bool | None:
    """Return False if a permit has ended, None if one is not known, and True otherwise."""
    answers = [permit() for permit in permits if permit is not None]
    if False in answers:
        return False
    return None if None in answers else True
