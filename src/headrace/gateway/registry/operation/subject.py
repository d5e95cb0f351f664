"""Subjects and their versions: listed, registered, found, deleted."""

from dataclasses import replace
from typing import Any

from headrace.gateway.registry import deletion, registration
from headrace.gateway.registry.access.subject_users import can_read
from headrace.gateway.registry.error import (
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from headrace.gateway.registry.operation.candidate import (
    aliased_subject,
    check_context,
    follow_alias,
    read_candidate,
    read_number,
)
from headrace.gateway.registry.operation.schema import MOST_LIST, formatted, found_tags
from headrace.gateway.registry.request import LATEST, Request
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.rule_set import changed_rule_set, read_metadata
from headrace.gateway.registry.state.stored_schema import Json, StoredSchema
from headrace.gateway.registry.tag_request import read_tag_request
from headrace.gateway.registry.view import Plan, RegistryView


def list_subjects(view: RegistryView, request: Request) -> Any:
    found = view.read(
        lambda state: state.subjects(
            request.prefix, deleted=request.flag("deleted"), only=request.flag("deletedOnly")
        )
    )
    allowed = [each for each in found if can_read(request.rights, each)]
    return request.page(allowed, MOST_LIST, MOST_LIST)


def pick_version(
    state: RegistryState, subject: str, version: int, *, deleted: bool = False
) -> StoredSchema:
    """Return a version of a subject.

    Raises:
        RegistryError: 40401, 40402.
    """
    if not state.versions(subject, deleted=deleted):
        raise subject_not_found(subject)
    if version == LATEST:
        schema = state.latest(subject, deleted=deleted)
    else:
        schema = state.version(subject, version)
    if schema is None or (schema.deleted and not deleted):
        raise version_not_found("latest" if version == LATEST else version)
    return schema


def _requested_version(view: RegistryView, request: Request) -> StoredSchema:
    version, deleted = request.version, request.flag("deleted")
    return view.read(
        lambda state: pick_version(state, follow_alias(state, request), version, deleted=deleted)
    )


def list_versions(view: RegistryView, request: Request) -> Any:
    subject = aliased_subject(view, request)
    found = view.read(
        lambda state: state.versions(
            subject, deleted=request.flag("deleted"), only=request.flag("deletedOnly")
        )
    )
    if not found:
        raise subject_not_found(request.subject)
    return request.page([each.version for each in found], MOST_LIST, MOST_LIST)


def get_version(view: RegistryView, request: Request) -> Any:
    schema = _requested_version(view, request)
    tags = found_tags(view, request, schema)
    return {**schema.entity(), "schema": formatted(view, request, schema), **tags}


def get_version_text(view: RegistryView, request: Request) -> Any:
    return formatted(view, request, _requested_version(view, request))


def list_referrers(view: RegistryView, request: Request) -> Any:
    schema = _requested_version(view, request)
    found = view.read(lambda state: state.referrers(schema.subject, schema.version))
    return request.page(sorted({each.id for each in found}), MOST_LIST, MOST_LIST)


def latest_with_metadata(view: RegistryView, request: Request) -> Any:
    """Return the latest version whose metadata has all properties of the query."""
    names, values = request.query.get("key", ""), request.query.get("value", "")
    wanted = dict(zip(names.split("\n"), values.split("\n"), strict=False))
    subject = aliased_subject(view, request)
    found = view.read(lambda state: state.versions(subject, deleted=request.flag("deleted")))
    if not found:
        raise subject_not_found(request.subject)
    for each in reversed(found):
        properties = (each.metadata or {}).get("properties") or {}
        if all(properties.get(name) == value for name, value in wanted.items()):
            return {**each.entity(), "schema": formatted(view, request, each)}
    raise schema_not_found()


def register(view: RegistryView, request: Request) -> Plan:
    candidate = read_candidate(view, request, write=True)
    change = read_tag_request(request.members, "schemaTagsToAdd", "schemaTagsToRemove")
    plan = registration.register(view, replace(candidate, tags=change))
    if candidate.id >= 0 and plan.records:
        check_context(request, candidate.subject, "Schemas with ids of their own")
    return Plan(_registered(plan.answer), plan.records)


def _registered(schema: StoredSchema) -> Json:
    return {
        "id": schema.id,
        "version": schema.version,
        "guid": schema.guid,
        **schema.description(),
    }


def change_tags(view: RegistryView, request: Request) -> Plan:
    """Register a version with the tags, metadata and rules of another one changed."""
    body, version = request.members, request.version
    change = read_tag_request(body, "tagsToAdd", "tagsToRemove")
    new_version = read_number(body, "newVersion", 0)

    def gather(state: RegistryState) -> tuple[StoredSchema, Json | None]:
        subject = follow_alias(state, request, write=True)
        latest = state.latest(subject)
        return pick_version(state, subject, version), None if latest is None else latest.rule_set

    schema, rule_set = view.read(gather)
    metadata = read_metadata(body.get("metadata"))
    candidate = registration.Candidate(
        schema.subject,
        schema.type,
        schema.text,
        schema.references,
        schema.metadata if metadata is None else metadata,
        changed_rule_set(rule_set, body),
        new_version,
        tags=change,
    )
    plan = registration.register(view, candidate)
    return Plan(_registered(plan.answer), plan.records)


def find_schema(view: RegistryView, request: Request) -> Any:
    deleted = request.flag("deleted")
    candidate = read_candidate(view, request)
    if not view.read(lambda state: state.versions(candidate.subject, deleted=deleted)):
        raise subject_not_found(request.subject)
    found = registration.find(view, candidate, deleted=deleted)
    if found is None:
        raise schema_not_found()
    return {**found.entity(), "schema": formatted(view, request, found)}


def delete_subject(view: RegistryView, request: Request) -> Plan:
    return view.read(
        lambda state: deletion.delete_subject(
            state, follow_alias(state, request, write=True), permanent=request.flag("permanent")
        )
    )


def delete_version(view: RegistryView, request: Request) -> Plan:
    version, permanent = request.version, request.flag("permanent")

    def plan(state: RegistryState) -> Plan:
        subject = follow_alias(state, request, write=True)
        number = version
        if version == LATEST:
            number = pick_version(state, subject, LATEST, deleted=permanent).version
        return deletion.delete_version(state, subject, number, permanent=permanent)

    return view.read(plan)
