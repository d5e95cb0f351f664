"""Associations of topics with subjects: created, changed, listed, deleted."""

from dataclasses import replace
from typing import Any, Final

from headrace.gateway.registry import deletion, registration
from headrace.gateway.registry.access.subject_users import can_read, can_write
from headrace.gateway.registry.association import (
    LIFECYCLES,
    TOPIC,
    Resource,
    Wish,
    check_together,
    find_associations,
    plan_association,
    read_resource,
    read_wishes,
    shown_association,
)
from headrace.gateway.registry.error import (
    RegistryError,
    association_frozen,
    association_not_found,
    invalid_association,
)
from headrace.gateway.registry.operation.candidate import candidate_of
from headrace.gateway.registry.operation.schema import MOST_LIST
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.record import Record
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.stored_schema import Json, StoredSchema
from headrace.gateway.registry.view import Plan, RegistryView

_OPERATIONS: Final = ("CREATE", "UPSERT", "DELETE")
_MOST_REQUESTS: Final = 1000


def create(view: RegistryView, request: Request) -> Plan:
    return _write(view, request, create=True)


def create_or_update(view: RegistryView, request: Request) -> Plan:
    return _write(view, request, create=False)


def _write(view: RegistryView, request: Request, *, create: bool) -> Plan:
    resource = read_resource(request.members, request.names.get("resource"))
    wishes = read_wishes(request.members, resource, request.context)
    return _plan(view, request, resource, [(wish, create) for wish in wishes])


def split_batch(request: Request) -> list[Request]:
    """Return the requests of a batch.

    Raises:
        RegistryError: 42212.
    """
    requests = request.members.get("requests")
    if not isinstance(requests, list) or len(requests) > _MOST_REQUESTS:
        raise invalid_association("requests", f"must be a list of at most {_MOST_REQUESTS}")
    if not all(isinstance(each, dict) for each in requests):
        raise invalid_association("requests", "must be a list of objects")
    return [replace(request, body=each) for each in requests]


def change(view: RegistryView, request: Request) -> Plan:
    """Create, change and delete associations of one resource: all of them, or none."""
    resource = read_resource(request.members, None)
    wishes = read_wishes(request.members, resource, request.context)
    members = request.members["associations"]
    kinds = [each.get("opType") for each in members]
    if not all(kind in _OPERATIONS for kind in kinds):
        raise invalid_association("opType", f"must be one of {', '.join(_OPERATIONS)}")
    changes = zip(wishes, kinds, strict=True)
    plan = _plan(view, request, resource, [(w, k == "CREATE") for w, k in changes if k != "DELETE"])
    records = list(plan.records)
    for wish, kind, member in zip(wishes, kinds, members, strict=True):
        if kind == "DELETE":
            records += _deleted(
                view,
                request,
                member.get("cascadeLifecycle") is True,
                resourceId=resource.id,
                associationType=wish.type,
            )
    return Plan(plan.answer, [] if request.flag("dryRun") else records)


def _plan(
    view: RegistryView, request: Request, resource: Resource, changes: list[tuple[Wish, bool]]
) -> Plan:
    wishes = [wish for wish, _ in changes]
    for wish in wishes:
        _check_writable(request, wish.subject)
    records: list[Record] = []
    infos: list[Json] = []
    schemas: list[StoredSchema] = []
    planned = [_planned(view, resource, wish, create=create) for wish, create in changes]
    check_together([new for new, _ in planned])
    for wish, (new, own) in zip(wishes, planned, strict=True):
        info = {name: new[name] for name in ("subject", "associationType", "lifecycle", "frozen")}
        if wish.schema is not None:
            plan = registration.register(view, _candidate(view, request, wish))
            schema, versions = registration.numbered_after(plan, schemas)
            schemas.append(schema)
            info["schema"] = schema.entity()
            records += versions
        infos.append(info)
        records += own
    answer = {
        "resourceName": resource.name,
        "resourceNamespace": resource.namespace,
        "resourceId": resource.id,
        "resourceType": TOPIC,
        "associations": infos,
    }
    return Plan(answer, [] if request.flag("dryRun") else records)


def _planned(
    view: RegistryView, resource: Resource, wish: Wish, *, create: bool
) -> tuple[Json, list[Record]]:
    return view.read(lambda state: plan_association(state, resource, wish, create=create))


def _candidate(view: RegistryView, request: Request, wish: Wish) -> registration.Candidate:
    assert wish.schema is not None
    found = candidate_of(view, request, wish.subject, wish.schema)
    return replace(found, normalize=wish.normalize, id=-1, version=0)


def _check_writable(request: Request, subject: str) -> None:
    if not can_write(request.rights, subject):
        raise RegistryError(40301, f"User is denied write access to subject '{subject}'")


def list_of_subject(view: RegistryView, request: Request) -> Any:
    return _listed(view, request, subject=request.subject)


def list_of_resource(view: RegistryView, request: Request) -> Any:
    return _listed(view, request, resourceId=request.names["resource"])


def list_of_resource_name(view: RegistryView, request: Request) -> Any:
    """List the associations of a name; the namespace `-` stands for all."""
    members = {"resourceName": request.names["name"]}
    if request.names["namespace"] != "-":
        members["resourceNamespace"] = request.names["namespace"]
    return _listed(view, request, **members)


def _listed(view: RegistryView, request: Request, **members: str) -> Any:
    found = view.read(lambda state: _found(state, request, **members))
    shown = [
        shown_association(each) for each in found if can_read(request.rights, str(each["subject"]))
    ]
    return request.page(shown, MOST_LIST, MOST_LIST)


def _found(state: RegistryState, request: Request, **members: str) -> list[Json]:
    """Return the associations with these members that the query asks for."""
    lifecycle = request.query.get("lifecycle")
    if lifecycle:
        if lifecycle not in LIFECYCLES:
            raise invalid_association("lifecycle", f"must be one of {', '.join(LIFECYCLES)}")
        members["lifecycle"] = lifecycle
    members["resourceType"] = request.query.get("resourceType") or TOPIC
    types = request.query.get("associationType", "").split("\n")
    return [
        value
        for _, value in find_associations(state, **members)
        if isinstance(value.get("subject"), str)
        and (types == [""] or value.get("associationType") in types)
    ]


def delete(view: RegistryView, request: Request) -> Plan:
    """Delete the associations of a resource, with cascadeLifecycle the subjects of strong ones."""
    members = {"resourceId": request.names["resource"]}
    records = _deleted(view, request, request.flag("cascadeLifecycle"), **members)
    return Plan(None, [] if request.flag("dryRun") else records)


def _deleted(view: RegistryView, request: Request, cascade: bool, **members: str) -> list[Record]:
    """Return the records by which associations go.

    Raises:
        RegistryError: 40301, 40410, 40908.
    """

    def plan(state: RegistryState) -> list[Record]:
        found = _found(state, request, **members)
        if not found:
            raise association_not_found(members["resourceId"])
        records: list[Record] = []
        for key, value in find_associations(state):
            if not any(value is each for each in found):
                continue
            subject = str(value["subject"])
            _check_writable(request, subject)
            if value.get("frozen") and not cascade:
                raise association_frozen(str(value.get("associationType")), subject)
            if cascade and value.get("lifecycle") == "STRONG":
                records += deletion.erase_subject(state, subject)
            records.append(Record(key))
        return records

    return view.read(plan)
