"""What routes ask of a request: who sent it, what is in it, whether that may be done."""

import json
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from headrace.console.user import Role, User
from headrace.model.error import InvalidArgument

if TYPE_CHECKING:
    from headrace.console.desk import Desk


def desk_of(request: Request) -> "Desk":
    found: Desk = request.app.state.desk
    return found


def changer(request: Request, role: Role) -> User:
    """Who wants to change something, if they may.

    Raises:
        HTTPException: they may not, or nobody may.
    """
    if desk_of(request).settings.read_only:
        raise HTTPException(403, "this console is read-only")
    user: User = request.state.user
    if user.role < role:
        needed = role.name.lower()
        raise HTTPException(403, f"{user.name} is a {user.role.name.lower()}, this needs {needed}")
    return user


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object of a request.

    Raises:
        InvalidArgument: it has none.
    """
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError, ClientDisconnect):
        raise InvalidArgument("the request's body is no JSON") from None
    if not isinstance(found, dict):
        raise InvalidArgument("the request's body is no JSON object")
    return found


def integer(request: Request, name: str, default: int, *, most: int) -> int:
    """A number from the query, between 0 and `most`.

    Raises:
        InvalidArgument: it is none.
    """
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise InvalidArgument(f"{name} is {text[:40]!r}: it is a number")
    return min(int(text), most)


def text_in(body: dict[str, Any], name: str, default: str | None = None) -> str:
    """A text from a body.

    Raises:
        InvalidArgument: it is missing, or something else.
    """
    found = body.get(name, default)
    if not isinstance(found, str):
        raise InvalidArgument(f"{name} is missing, or is no text")
    return found
