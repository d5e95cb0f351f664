"""The OpenAPI document, made of the same tables that requests are served by."""

import re
from collections.abc import Iterable
from typing import Any, Final

from headrace import __version__
from headrace.gateway.rest.openapi_schema import SCHEMAS, reference
from headrace.gateway.rest.request import JSON_TYPE, V2_TYPE
from headrace.gateway.rest.route import Route

_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NUMBERS: Final = ("broker_id", "partition_id")
_WITH_BODY: Final = ("POST", "PUT", "PATCH")
_ERRORS: Final = {
    400: "A parameter or the body is wrong",
    401: "No user of the proxy, where there are users",
    403: "The caller may not do this",
    404: "There is no such path, topic, group or other resource",
    413: "It is too large for the proxy or the cluster",
    414: "The path is too long",
    429: "The proxy or one of its bounds is full",
    500: "The cluster has failed; 50003 may pass",
}
_BODY_ERRORS: Final = {
    408: "The body came too slowly",
    415: "The body has another type",
    422: "The body is JSON, and has wrong fields",
}
_CONSUMER_ERRORS: Final = {
    406: "The instance has another format",
    409: "The instance exists, or cannot do this now",
}


def describe(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the document of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.3",
        "info": {"title": "Headrace REST API", "version": __version__},
        "paths": paths,
        "components": {"schemas": dict(SCHEMAS)},
    }


def _operation(route: Route) -> dict[str, Any]:
    content_type = JSON_TYPE if route.path.startswith(("/v3", "/openapi")) else V2_TYPE
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer" if name in _NUMBERS else "string"},
        }
        for name in _PARAMETER.findall(route.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
        for name in route.query
    ]
    success: dict[str, Any] = {"description": "Success"}
    if route.returns is not None:
        success["content"] = {content_type: {"schema": reference(route.returns)}}
    error = {
        "description": "Why it failed",
        "content": {content_type: {"schema": reference("Error")}},
    }
    statuses = _ERRORS | (_BODY_ERRORS if route.method in _WITH_BODY else {})
    if route.path.startswith("/consumers"):
        statuses = _BODY_ERRORS | _CONSUMER_ERRORS | statuses
    errors = {
        str(status): {**error, "description": what} for status, what in sorted(statuses.items())
    }
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": parameters,
        "responses": {
            **{str(status): success for status in (route.status, *route.also)},
            **errors,
            "default": error,
        },
    }
    if route.takes is not None:
        body = {content_type: {"schema": reference(route.takes)}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"\w+", route.path)
    return "_".join((route.method.lower(), *words))
