"""Who sent a request, and what they may do.

Rights are looked up when they are asked for: a stream that lasts for hours ends when the file of
users no longer allows it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.gateway.access.rights import EVERYTHING, Rights
from headrace.gateway.access.user import User
from headrace.gateway.access.watched_users import WatchedUsers
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import RestError

_VERBS: Final[Mapping[Right, tuple[str, ...]]] = {
    Right.DESCRIBE: ("read", "write", "admin"),
    Right.READ: ("read", "admin"),
    Right.WRITE: ("write", "admin"),
    Right.ADMIN: ("admin",),
    Right.GROUP: ("group", "admin"),
    Right.CLUSTER: ("admin",),
}
_GROUP_PARAMETERS: Final = ("group_name", "consumer_group_id")
_TOPIC_PARAMETER: Final = "topic_name"


class Caller:
    """The caller of one request."""

    def __init__(self, users: WatchedUsers | None = None, user: User | None = None) -> None:
        self._users = users
        self._user = user

    @property
    def name(self) -> str:
        """The user's name; empty where there is no login."""
        return "" if self._user is None else self._user.name

    @property
    def rights(self) -> Rights:
        if self._users is None or self._user is None:
            return EVERYTHING
        return self._users.rights_of(self._user)

    def can(self, right: Right, name: str) -> bool:
        """Return whether the caller has a right to a topic or a group."""
        return self.rights.covers(name, *_VERBS[right])

    def check(self, right: Right, names: Iterable[str]) -> None:
        """Refuse what the caller may not do.

        Raises:
            RestError: 40301, naming the first topic or group to which the right is missing.
        """
        for name in names:
            if not self.can(right, name):
                what = "group" if right is Right.GROUP else "topic"
                raise denied(f"{right.name.lower()} access to {what} {name}")

    def check_path(self, right: Right, path: Mapping[str, str]) -> None:
        """Refuse a request to a path whose route asks for a right that the caller has not.

        Raises:
            RestError: 40301.
        """
        if self._users is None or right is Right.LOGIN or right is Right.BODY:
            return
        if right is Right.CLUSTER:
            if not self.can(right, ""):
                raise denied("administration of the cluster")
        elif right is Right.GROUP:
            self.check(right, [path[each] for each in _GROUP_PARAMETERS if each in path])
        else:
            self.check(right, [path[_TOPIC_PARAMETER]])


ANYONE: Final = Caller()
"""The caller of each request to a proxy without a login."""


def authenticate(users: WatchedUsers | None, authorization: str) -> Caller:
    """Return the caller of a request.

    Raises:
        RestError: 40101, unless a user of the file has sent it.
    """
    if users is None:
        return ANYONE
    user = users.current.authenticate(authorization)
    if user is None:
        raise RestError(401, "Unauthorized", 40101)
    return Caller(users, user)


def denied(what: str) -> RestError:
    return RestError(403, f"User is denied {what}.", 40301)
