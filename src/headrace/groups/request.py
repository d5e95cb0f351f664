"""The base classes of every request to a group coordinator and of its reply.

The concrete classes are in `classic.message`, `consumer.message` and `offset.message`. They are
free of any wire version: a handler of the broker translates.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.groups.error import GroupError

ReplyT_co = TypeVar("ReplyT_co", bound="GroupReply", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReply:
    """A reply. `error` refuses the whole request."""

    error: GroupError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest(Generic[ReplyT_co]):
    """A request about one group. The type argument is the class of its reply."""

    group_id: str

    @property
    def is_leaving(self) -> bool:
        """Whether members leave with it: it is not refused for the size of what it writes."""
        return False

    def refused(self, error: GroupError) -> ReplyT_co:
        """Return the reply that refuses this request."""
        raise NotImplementedError
