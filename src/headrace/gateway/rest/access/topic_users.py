"""The users of the proxy, and what each right lets them do.

A right covers topics whose names begin with its prefix. `read` reads records, `write` writes them,
and each of the two describes the topic; `admin` also creates, changes and deletes it. `group`
covers consumer groups; `admin` covers those of its prefix as well. `admin:*` administers the
cluster.
"""

from typing import Final

from headrace.gateway.access.user_kind import UserKind

TOPIC_USERS: Final = UserKind("rest", ("read", "write", "admin", "group"), "--admin '*'")
