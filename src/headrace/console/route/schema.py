"""`/api/schemas`: subjects of the schema registry, their versions, and changes of them.

Subjects may have any character in their name, so that they are in the query and not in the path.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.client.network.pool import ConnectionPool
from headrace.console.access.user import Role, User
from headrace.console.request import body_of, integer, state_of, text_in, user_with_role
from headrace.console.schema_book import LEVELS, SchemaBook
from headrace.model.error import InvalidArgument
from headrace.schema.schema import SchemaType
from headrace.serde.registry_client import RegistryClient

T = TypeVar("T")

_AT_ONCE: Final = 8
_MOST_VERSION: Final = 2**31 - 1
_MOST_REFERENCES: Final = 1_000
_MOST_MESSAGES: Final = 100


async def list_subjects(request: Request) -> Response:
    if state_of(request).registry is None:
        return JSONResponse({"registry": False, "subjects": [], "count": 0, "level": None})
    text = request.query_params.get("text", "").strip().lower()[:1_000]
    found = await _ask(request, lambda registry: SchemaBook(registry).subjects(text))
    return JSONResponse({"registry": True, "levels": LEVELS, **found})


async def subject(request: Request) -> Response:
    name = _subject(request)
    found = await _ask(request, lambda registry: SchemaBook(registry).subject(name))
    return JSONResponse({"levels": LEVELS, **found})


async def version(request: Request) -> Response:
    name, number = _subject(request), integer(request, "version", 1, most=_MOST_VERSION)
    return JSONResponse(
        await _ask(request, lambda registry: SchemaBook(registry).version(name, number))
    )


async def difference(request: Request) -> Response:
    name = _subject(request)
    one = integer(request, "from", 1, most=_MOST_VERSION)
    two = integer(request, "to", 1, most=_MOST_VERSION)
    return JSONResponse(
        await _ask(request, lambda registry: SchemaBook(registry).difference(name, one, two))
    )


async def check(request: Request) -> Response:
    """Try out whether a schema could be registered. Body: as for `register`."""
    body = await body_of(request)
    name, candidate = text_in(body, "subject"), _candidate(body)
    path = f"/compatibility/subjects/{quote(name, safe='')}/versions?verbose=true"
    found = await _ask(request, lambda registry: registry.ask("POST", path, candidate))
    messages = [str(each) for each in found.get("messages") or ()][:_MOST_MESSAGES]
    return JSONResponse({"compatible": bool(found.get("is_compatible")), "messages": messages})


async def register(request: Request) -> Response:
    """Register a version.

    Body: `{"subject": ..., "type": "AVRO", "schema": ..., "references": [...]}`.
    """
    user = user_with_role(request, Role.EDITOR)
    body = await body_of(request)
    name, candidate = text_in(body, "subject"), _candidate(body)
    if not name:
        raise InvalidArgument("subject is empty: write a name, such as clicks-value")
    path = f"/subjects/{quote(name, safe='')}/versions"
    detail = {"type": candidate["schemaType"], "characters": len(candidate["schema"])}
    found = await _change(request, user, ("register schema", name, detail), "POST", path, candidate)
    return JSONResponse({"id": found.get("id"), "version": found.get("version")}, status_code=201)


async def delete(request: Request) -> Response:
    """Delete a version, or a subject with all of them.

    Body: `{"subject": ..., "version": N or null, "permanent": false, "confirm": the subject}`.
    Only what was deleted before can be deleted for good.
    """
    user = user_with_role(request, Role.ADMIN)
    body = await body_of(request)
    name, number = text_in(body, "subject"), body.get("version")
    if not name or body.get("confirm") != name:
        raise InvalidArgument("to delete schemas, confirm it with the subject's name")
    if number is not None and not _is_version(number):
        raise InvalidArgument("version is a number from 1 on, or null for all of them")
    permanent = body.get("permanent") is True
    path = f"/subjects/{quote(name, safe='')}"
    path += "" if number is None else f"/versions/{number}"
    path += "?permanent=true" if permanent else ""
    detail = {"version": number, "permanent": permanent}
    await _change(request, user, ("delete schema", name, detail), "DELETE", path)
    return JSONResponse({})


async def set_level(request: Request) -> Response:
    """Set the compatibility level of a subject, or of all without one of their own.

    Body: `{"subject": ... or null, "level": ... or null for that of all}`.
    """
    body = await body_of(request)
    name, level = body.get("subject"), body.get("level")
    # A change of the level of all subjects reaches further than any topic.
    user = user_with_role(request, Role.EDITOR if name else Role.ADMIN)
    if name is not None and (not isinstance(name, str) or not name):
        raise InvalidArgument("subject is a text, or null for all subjects")
    if level is not None and level not in LEVELS:
        raise InvalidArgument(f"level is one of {', '.join(LEVELS)}, or null")
    path = f"/config/{quote(name, safe='')}" if name else "/config"
    what = ("schema level", name or "(all subjects)", {"level": level})
    if level is None:
        await _change(request, user, what, "DELETE", path)
    else:
        await _change(request, user, what, "PUT", path, {"compatibility": level})
    return JSONResponse({})


def _subject(request: Request) -> str:
    name = request.query_params.get("subject", "")
    if not name:
        raise InvalidArgument("subject is missing: add ?subject=NAME")
    return name


def _is_version(number: Any) -> bool:
    """Whether this is one version's number: registries take -1 for whichever is the latest."""
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return is_number and 1 <= number <= _MOST_VERSION


def _candidate(body: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as the registry's requests have it."""
    kind, references = text_in(body, "type", "AVRO"), body.get("references") or []
    if kind not in SchemaType.__members__:
        raise InvalidArgument(f"type is one of {', '.join(SchemaType)}")
    if not isinstance(references, list) or len(references) > _MOST_REFERENCES:
        raise InvalidArgument("references are a list of objects with name, subject and version")
    candidate: dict[str, Any] = {"schema": text_in(body, "schema"), "schemaType": kind}
    if references:
        candidate["references"] = references
    return candidate


def _registry(request: Request) -> RegistryClient:
    registry = state_of(request).registry
    if registry is None:
        raise HTTPException(404, "this console has no schema registry: start it with --registry")
    return registry


async def _ask(request: Request, call: Callable[[RegistryClient], T]) -> T:
    """Call the registry in a worker thread; a few calls run at once."""
    registry = _registry(request)
    shared = request.app.state.__dict__
    limiter = shared.setdefault("registry_calls", CapacityLimiter(_AT_ONCE))
    return await run_sync(call, registry, limiter=limiter)


async def _change(
    request: Request,
    user: User,
    what: tuple[str, str, dict[str, Any]],
    method: str,
    path: str,
    body: Any = None,
) -> dict[str, Any]:
    """Send a request that changes something, and log it."""
    state, registry = state_of(request), _registry(request)

    def send(pool: ConnectionPool) -> dict[str, Any]:
        with state.changes.change(pool, user, *what):
            answer = registry.ask(method, path, body)
        return answer if isinstance(answer, dict) else {}

    return await state.cluster.run_long(send)


ROUTES: Final = [
    Route("/schemas", list_subjects, methods=["GET"]),
    Route("/schemas", register, methods=["POST"]),
    Route("/schemas", delete, methods=["DELETE"]),
    Route("/schemas/subject", subject, methods=["GET"]),
    Route("/schemas/version", version, methods=["GET"]),
    Route("/schemas/diff", difference, methods=["GET"]),
    Route("/schemas/check", check, methods=["POST"]),
    Route("/schemas/level", set_level, methods=["PUT"]),
]
