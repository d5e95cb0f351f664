"""ACLs between Kafka's codes on the wire and the names in the cluster's state."""

from enum import IntEnum
from typing import Any, TypeVar

from headrace.broker.auth.resource import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from headrace.cluster.acl import Acl, AclFilter
from headrace.model.error import InvalidArgument

ANY = 1
"""In a filter: it matches every value."""

Code = TypeVar("Code", bound=IntEnum)


def read_acl(creation: Any) -> Acl:
    """Return the entry of a CreateAcls request.

    Raises:
        InvalidArgument: it could never apply to anything.
    """
    kind = _known(ResourceType, creation.resource_type, "resource type")
    pattern = _known(PatternType, creation.resource_pattern_type, "pattern type")
    operation = _known(Operation, creation.operation, "operation")
    permission = _known(Permission, creation.permission_type, "permission")
    if pattern is PatternType.MATCH:
        raise InvalidArgument("an entry has the pattern type LITERAL or PREFIXED")
    if not creation.resource_name:
        raise InvalidArgument("the name of the resource is empty: * stands for all of them")
    if kind is ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise InvalidArgument(f"the only resource of type CLUSTER is {CLUSTER_NAME}")
    principal_type, colon, principal = creation.principal.partition(":")
    if not (colon and principal_type and principal):
        raise InvalidArgument("a principal is written with its type, as User:anna")
    if not creation.host:
        raise InvalidArgument("the host is empty: * stands for all of them")
    return Acl(
        resource_type=_word(kind),
        resource_name=creation.resource_name,
        pattern_type=_word(pattern),
        principal=creation.principal,
        host=creation.host,
        operation=_word(operation),
        permission=_word(permission),
    )


def read_filter(request: Any) -> AclFilter:
    """Return the filter of a DescribeAcls or DeleteAcls request.

    Raises:
        InvalidArgument: it holds an unknown code.
    """
    return AclFilter(
        resource_type=_any_or(ResourceType, request.resource_type_filter, "resource type"),
        resource_name=request.resource_name_filter,
        pattern_type=_any_or(PatternType, request.pattern_type_filter, "pattern type"),
        principal=request.principal_filter,
        host=request.host_filter,
        operation=_any_or(Operation, request.operation, "operation"),
        permission=_any_or(Permission, request.permission_type, "permission"),
    )


def resource_fields(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": ResourceType[acl.resource_type.upper()],
        "resource_name": acl.resource_name,
        "pattern_type": PatternType[acl.pattern_type.upper()],
    }


def entry_fields(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation[acl.operation.upper()],
        "permission_type": Permission[acl.permission.upper()],
    }


def _known(codes: type[Code], value: int, what: str) -> Code:
    try:
        return codes(value)
    except ValueError:
        raise InvalidArgument(f"{value} is not a {what} that an entry can have") from None


def _any_or(codes: type[Code], value: int, what: str) -> str | None:
    return None if value == ANY else _word(_known(codes, value, what))


def _word(code: IntEnum) -> str:
    return code.name.lower()
