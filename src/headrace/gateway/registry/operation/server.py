"""The registry itself: its contexts, its ids, its version."""

from typing import Any

from headrace.gateway.registry import deletion
from headrace.gateway.registry.access.subject_users import can_write
from headrace.gateway.registry.error import RegistryError
from headrace.gateway.registry.operation.schema import MOST_LIST
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.subject_name import (
    DEFAULT_CONTEXT,
    SubjectName,
    context_named,
    is_context_name,
)
from headrace.gateway.registry.view import Plan, RegistryView


def root(_: RegistryView, __: Request) -> Any:
    return {}


def list_contexts(view: RegistryView, request: Request) -> Any:
    prefix = request.query.get("contextPrefix", "")
    found = [each for each in view.read(lambda state: state.contexts()) if each.startswith(prefix)]
    return request.page(found, MOST_LIST, MOST_LIST)


def delete_context(view: RegistryView, request: Request) -> Plan:
    context = context_named(request.names["context"])
    if context == DEFAULT_CONTEXT or not is_context_name(context):
        raise RegistryError(42205, "The default context cannot be deleted")
    if not can_write(request.rights, SubjectName(context, "").text):
        raise RegistryError(40301, f"User is denied write access to context '{context}'")
    return view.read(lambda state: deletion.delete_context(state, context))


def cluster_id(view: RegistryView, _: Request) -> Any:
    clusters = {
        "kafka-cluster": view.about.get("cluster", ""),
        "schema-registry-cluster": view.about.get("group", ""),
    }
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


def server_version(view: RegistryView, _: Request) -> Any:
    return {"version": view.about.get("version", ""), "commitId": ""}


def deployment(_: RegistryView, __: Request) -> Any:
    return {"properties": {}}
