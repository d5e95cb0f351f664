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
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _operation_id(route),
        "parameters": parameters,
        "responses": {str(route.status): success, "default": error},
    }
    if route.takes is not None:
        body = {content_type: {"schema": reference(route.takes)}}
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"\w+", route.path)
    return "_".join((route.method.lower(), *words))
