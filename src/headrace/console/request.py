"""What routes read from a request: the console's state, the user, the body and the query."""

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from headrace.console.access.user import Role, User
from headrace.console.console_state import ConsoleState
from headrace.flow.remote.topic_name import REQUESTS, RUNS
from headrace.gateway.kinesis.store.stream_topic import STREAM_TOPIC
from headrace.gateway.registry.store.schema_topic import DEFAULT_TOPIC as SCHEMA_TOPIC
from headrace.model.error import InvalidArgument


def state_of(request: Request) -> ConsoleState:
    state: ConsoleState = request.app.state.console
    return state


def user_with_role(request: Request, role: Role) -> User:
    """Return the user of a request that changes something.

    Raises:
        HTTPException: the user lacks the role, or the console is read-only.
    """
    if state_of(request).settings.read_only:
        raise HTTPException(403, "this console is read-only")
    user: User = request.state.user
    if user.role < role:
        needed = role.name.lower()
        raise HTTPException(403, f"{user.name} is a {user.role.name.lower()}, this needs {needed}")
    return user


def refuse_kept_topic(state: ConsoleState, topic: str) -> None:
    """Refuse to change a topic that programs keep.

    The log of changes would prove nothing if a user could write its records, or have them deleted
    by a short retention. A record in the topics of flows stops a flow, or shows one that is none;
    one in the topic of streams moves the end of a shard, and one in that of schemas changes what
    every client reads.

    Raises:
        HTTPException: it is such a topic.
    """
    if topic in (RUNS, REQUESTS):
        raise HTTPException(403, "flows in clusters are seen and changed through this topic")
    if topic == STREAM_TOPIC:
        raise HTTPException(403, "the Kinesis gateway keeps its streams in this topic")
    if topic == SCHEMA_TOPIC:
        raise HTTPException(403, "the schema registry keeps its schemas in this topic")
    if topic == state.settings.changes_topic:
        raise HTTPException(403, "this topic holds the changes made here: the console keeps it")


async def body_of(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        InvalidArgument: the body is something else.
    """
    try:
        text = await request.body()
        if may_be_empty and not text:
            return {}
        body = json.loads(text)
    except (ValueError, RecursionError, ClientDisconnect):
        raise InvalidArgument("the request's body is no JSON") from None
    if not isinstance(body, dict):
        raise InvalidArgument("the request's body is no JSON object")
    return body


def integer(request: Request, name: str, default: int, *, most: int) -> int:
    """Return a number of the query, at most `most`.

    Raises:
        InvalidArgument: the text is no number.
    """
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidArgument(f"{name} is {text[:40]!r}: it is a number")
    return min(int(text), most)


def text_in(body: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of a body.

    Raises:
        InvalidArgument: it is missing, or something else.
    """
    text = body.get(name, default)
    if not isinstance(text, str):
        raise InvalidArgument(f"{name} is missing, or is no text")
    return text
