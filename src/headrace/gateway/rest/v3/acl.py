"""Access control entries: searched, created, deleted."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from headrace.client.error import error_of
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import Answer, Call
from headrace.gateway.rest.v3.resource import check_cluster, list_field, raise_outcome, url
from headrace.wire.api import ApiKey

# Kafka's codes on the wire, by their names in the API.
_RESOURCES: Final = {
    "ANY": 1,
    "TOPIC": 2,
    "GROUP": 3,
    "CLUSTER": 4,
    "TRANSACTIONAL_ID": 5,
    "DELEGATION_TOKEN": 6,
}
_PATTERNS: Final = {"ANY": 1, "MATCH": 2, "LITERAL": 3, "PREFIXED": 4}
_OPERATIONS: Final = {
    "ANY": 1,
    "ALL": 2,
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
}
_PERMISSIONS: Final = {"ANY": 1, "DENY": 2, "ALLOW": 3}
_CODES: Final[Mapping[str, Mapping[str, int]]] = {
    "resource_type": _RESOURCES,
    "pattern_type": _PATTERNS,
    "operation": _OPERATIONS,
    "permission": _PERMISSIONS,
}
_ORDER: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)


def search_acls(call: Call) -> Answer:
    check_cluster(call)
    query = call.request.query
    answer = call.pool.on_any(
        lambda connection: connection.call(ApiKey.DESCRIBE_ACLS, _filter(query))
    )
    raise_outcome(error_of(answer.error_code, answer.error_message))
    data = [
        _acl(call, found, entry, found.pattern_type)
        for found in answer.resources
        for entry in found.acls
    ]
    own = f"{url(call, 'acls')}?{urlencode(_known(query))}" if _known(query) else url(call, "acls")
    return Answer({"kind": "KafkaAclList", "metadata": {"self": own, "next": None}, "data": data})


def create_acl(call: Call) -> Answer:
    check_cluster(call)
    _create(call, [call.request.document()])
    return Answer(status=201)


def create_acls(call: Call) -> Answer:
    """Create many entries."""
    check_cluster(call)
    entries = list_field(call.request.document(), "data")
    if not entries:
        raise RestError(400, "data has to be a list of entries.")
    _create(call, entries)
    return Answer(status=201)


def delete_acls(call: Call) -> Answer:
    check_cluster(call)
    query = call.request.query
    for name in ("resource_type", "pattern_type", "operation", "permission"):
        if not query.get(name):
            raise RestError(400, f"{name} is missing.")
    body = {"filters": [_filter(query)]}
    answer = call.pool.on_controller(
        lambda connection: connection.call(ApiKey.DELETE_ACLS, body),
        lambda answer: [each.error_code for each in answer.filter_results],
    )
    result = answer.filter_results[0]
    raise_outcome(error_of(result.error_code, result.error_message))
    data = [_acl(call, each, each, each.pattern_type) for each in result.matching_acls]
    return Answer({"data": data})


def _create(call: Call, entries: list[dict[str, Any]]) -> None:
    body = {"creations": [_creation(each) for each in entries]}
    answer = call.pool.on_controller(
        lambda connection: connection.call(ApiKey.CREATE_ACLS, body),
        lambda answer: [each.error_code for each in answer.results],
    )
    for each in answer.results:
        raise_outcome(error_of(each.error_code, each.error_message))


def _creation(entry: dict[str, Any]) -> dict[str, Any]:
    for name in _ORDER:
        if not isinstance(entry.get(name), str):
            raise RestError(400, f"{name} has to be a text.")
    for name in _CODES:
        if entry[name].upper() in ("ANY", "MATCH"):
            raise RestError(400, f"{name} cannot be {entry[name]}: an entry is for one.")
    return {
        "resource_type": _code("resource_type", entry["resource_type"]),
        "resource_name": entry["resource_name"],
        "resource_pattern_type": _code("pattern_type", entry["pattern_type"]),
        "principal": entry["principal"],
        "host": entry["host"],
        "operation": _code("operation", entry["operation"]),
        "permission_type": _code("permission", entry["permission"]),
    }


def _filter(query: Mapping[str, str]) -> dict[str, Any]:
    return {
        "resource_type_filter": _code("resource_type", query.get("resource_type") or "ANY"),
        "resource_name_filter": query.get("resource_name") or None,
        "pattern_type_filter": _code("pattern_type", query.get("pattern_type") or "ANY"),
        "principal_filter": query.get("principal") or None,
        "host_filter": query.get("host") or None,
        "operation": _code("operation", query.get("operation") or "ANY"),
        "permission_type": _code("permission", query.get("permission") or "ANY"),
    }


def _code(field: str, name: str) -> int:
    code = _CODES[field].get(name.upper())
    if code is None:
        raise RestError(400, f"{field} has to be one of {', '.join(_CODES[field])}.")
    return code


def _name(field: str, code: int) -> str:
    return next((name for name, each in _CODES[field].items() if each == code), "UNKNOWN")


def _known(query: Mapping[str, str]) -> dict[str, str]:
    return {name: query[name] for name in _ORDER if query.get(name)}


def _acl(call: Call, found: Any, entry: Any, pattern_type: int) -> dict[str, Any]:
    fields = {
        "resource_type": _name("resource_type", found.resource_type),
        "resource_name": found.resource_name,
        "pattern_type": _name("pattern_type", pattern_type),
        "principal": entry.principal,
        "host": entry.host,
        "operation": _name("operation", entry.operation),
        "permission": _name("permission", entry.permission_type),
    }
    return {
        "kind": "KafkaAcl",
        "metadata": {"self": f"{url(call, 'acls')}?{urlencode(fields)}", "resource_name": None},
        "cluster_id": call.cluster_id,
        **fields,
    }
