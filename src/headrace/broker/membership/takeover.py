"""Which broker replaces one that has ended, and when: all that copied from it notice at once.

Each may do it, since commits compare and set. But of a hundred that begin together one commits, and
the others conflict and read the whole state of the cluster again. So the controller goes first, or
the broker with the lowest id if the controller itself has ended. The others wait for their turn, in
the order of their ids: by then they have usually heard that it is done, and find nothing to do. If
the first one has not noticed, because it copies nothing from that broker, the next one goes on.
"""

from collections.abc import Collection
from typing import Final

from headrace.model.ids import BrokerId

# Longer than a commit takes, and its watch events; short beside the end of a session.
_FIRST_TURN_SECONDS: Final = 0.3
_NEXT_TURN_SECONDS: Final = 0.05
_LAST_TURN_SECONDS: Final = 2.0


def takeover_seconds(
    broker: BrokerId, ended: BrokerId, *, controller: BrokerId, members: Collection[BrokerId]
) -> float:
    """Return for how long a broker waits before it replaces one that has ended.

    Args:
        members: the brokers that are registered, perhaps with the one that has ended.
    """
    others = [each for each in sorted({*members, broker}) if each != ended]
    first = controller if controller in others else others[0]
    if broker == first:
        return 0.0
    rank = [each for each in others if each != first].index(broker)
    return min(_FIRST_TURN_SECONDS + rank * _NEXT_TURN_SECONDS, _LAST_TURN_SECONDS)
