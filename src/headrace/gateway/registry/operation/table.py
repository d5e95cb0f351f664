"""Every path of the API, and what serves it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final

from headrace.gateway.registry.operation import (
    association,
    compatibility,
    schema,
    server,
    setting,
    subject,
)
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.subject_name import DEFAULT_CONTEXT, context_named
from headrace.gateway.registry.view import Plan, RegistryView

Serve = Callable[[RegistryView, Request], Any]


class Right(Enum):
    """What a user must have to send a request."""

    LOGIN = auto()
    """A name. What is shown is only what the user may read."""

    READ = auto()
    """Read access to the subject of the path."""

    WRITE = auto()
    """Write access to the subject of the path, or to everything without one."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path. `{name}` in the path stands for any text.

    Attributes:
        serve: returns what is answered, or, if it writes, the `Plan` of it.
        parses: whether it parses schemas, which may take long.
        lists_schemas: whether its answer has the texts of many schemas.
        split: what a batch consists of; each part is written and answered by itself.
    """

    method: str
    path: tuple[str, ...]
    serve: Serve
    right: Right
    writes: bool = False
    parses: bool = False
    lists_schemas: bool = False
    split: Callable[[Request], list[Request]] | None = None


def _route(method: str, path: str, serve: Serve, right: Right) -> Route:
    parts = tuple(path.strip("/").split("/")) if path != "/" else ()
    return Route(method, parts, serve, right, parses=method == "POST" and parts != ())


def _write(method: str, path: str, serve: Callable[[RegistryView, Request], Plan]) -> Route:
    # The right to a context, and to the subjects of associations, is checked where they are known.
    right = Right.WRITE
    if "{context}" in path or path.startswith("/associations"):
        right = Right.LOGIN
    return Route(method, tuple(path.strip("/").split("/")), serve, right, writes=True)


ROUTES: Final = (
    _route("GET", "/", server.root, Right.LOGIN),
    _route("POST", "/", server.root, Right.LOGIN),
    Route("GET", ("schemas",), schema.list_schemas, Right.LOGIN, lists_schemas=True),
    _route("GET", "/schemas/types", schema.list_types, Right.LOGIN),
    _route("GET", "/schemas/ids/{id}", schema.schema_by_id, Right.LOGIN),
    _route("GET", "/schemas/ids/{id}/schema", schema.schema_text_by_id, Right.LOGIN),
    _route("GET", "/schemas/ids/{id}/subjects", schema.subjects_of_id, Right.LOGIN),
    _route("GET", "/schemas/ids/{id}/versions", schema.versions_of_id, Right.LOGIN),
    _route("GET", "/schemas/guids/{guid}", schema.schema_by_guid, Right.LOGIN),
    _route("GET", "/schemas/guids/{guid}/ids", schema.ids_of_guid, Right.LOGIN),
    _route("GET", "/subjects", subject.list_subjects, Right.LOGIN),
    _route("POST", "/subjects/{subject}", subject.find_schema, Right.READ),
    _write("DELETE", "/subjects/{subject}", subject.delete_subject),
    _route("GET", "/subjects/{subject}/metadata", subject.latest_with_metadata, Right.READ),
    _route("GET", "/subjects/{subject}/versions", subject.list_versions, Right.READ),
    _write("POST", "/subjects/{subject}/versions", subject.register),
    _route("GET", "/subjects/{subject}/versions/{version}", subject.get_version, Right.READ),
    _write("DELETE", "/subjects/{subject}/versions/{version}", subject.delete_version),
    _write("POST", "/subjects/{subject}/versions/{version}/tags", subject.change_tags),
    _route(
        "GET",
        "/subjects/{subject}/versions/{version}/schema",
        subject.get_version_text,
        Right.READ,
    ),
    _route(
        "GET",
        "/subjects/{subject}/versions/{version}/referencedby",
        subject.list_referrers,
        Right.READ,
    ),
    _route(
        "POST",
        "/compatibility/subjects/{subject}/versions",
        compatibility.check_subject,
        Right.READ,
    ),
    _route(
        "POST",
        "/compatibility/subjects/{subject}/versions/{version}",
        compatibility.check_version,
        Right.READ,
    ),
    _route("GET", "/config", setting.get_config, Right.LOGIN),
    _write("PUT", "/config", setting.set_config),
    _write("DELETE", "/config", setting.delete_config),
    _route("GET", "/config/{subject}", setting.get_config, Right.READ),
    _write("PUT", "/config/{subject}", setting.set_config),
    _write("DELETE", "/config/{subject}", setting.delete_config),
    _route("GET", "/mode", setting.get_mode, Right.LOGIN),
    _write("PUT", "/mode", setting.set_mode),
    _write("DELETE", "/mode", setting.delete_mode),
    _route("GET", "/mode/{subject}", setting.get_mode, Right.READ),
    _write("PUT", "/mode/{subject}", setting.set_mode),
    _write("DELETE", "/mode/{subject}", setting.delete_mode),
    _route("GET", "/contexts", server.list_contexts, Right.LOGIN),
    _write("DELETE", "/contexts/{context}", server.delete_context),
    _write("POST", "/associations", association.create),
    replace(
        _write("POST", "/associations:batch", association.change), split=association.split_batch
    ),
    _route("GET", "/associations/subjects/{subject}", association.list_of_subject, Right.READ),
    _route("GET", "/associations/resources/{resource}", association.list_of_resource, Right.LOGIN),
    _write("PUT", "/associations/resources/{resource}", association.create_or_update),
    _write("DELETE", "/associations/resources/{resource}", association.delete),
    _route(
        "GET",
        "/associations/resources/{namespace}/{name}",
        association.list_of_resource_name,
        Right.LOGIN,
    ),
    _route("GET", "/v1/metadata/id", server.cluster_id, Right.LOGIN),
    _route("GET", "/v1/metadata/version", server.server_version, Right.LOGIN),
    _route("GET", "/v1/metadata/deployment", server.deployment, Right.LOGIN),
)


def _by_length(routes: Sequence[Route]) -> Mapping[int, list[Route]]:
    found: dict[int, list[Route]] = {}
    for each in routes:
        found.setdefault(len(each.path), []).append(each)
    return found


_BY_LENGTH: Final = _by_length(ROUTES)


@dataclass(frozen=True, slots=True)
class Match:
    """The routes of a path by method, what its parts stand for, and its context."""

    routes: Mapping[str, tuple[Route, Mapping[str, str]]]
    context: str


def find_routes(path: Sequence[str]) -> Match:
    """Return what serves a path, whose parts are decoded already.

    >>> find_routes(["subjects", "a/b", "versions"]).routes["GET"][1]
    {'subject': 'a/b'}
    >>> find_routes(["contexts", "eu", "config"]).context
    '.eu'
    """
    context = DEFAULT_CONTEXT
    if len(path) > 2 and path[0] == "contexts":
        context, path = context_named(path[1]), path[2:]
    routes: dict[str, tuple[Route, Mapping[str, str]]] = {}
    for route in _BY_LENGTH.get(len(path), ()):
        names = _names(route.path, path)
        if names is not None:
            routes.setdefault(route.method, (route, names))
    return Match(routes, context)


def _names(pattern: Sequence[str], path: Sequence[str]) -> dict[str, str] | None:
    names = {}
    for wanted, part in zip(pattern, path, strict=True):
        if wanted.startswith("{"):
            if not part:
                return None
            names[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return names
