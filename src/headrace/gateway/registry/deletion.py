"""Deletes versions, subjects and contexts.

First softly, so that ids still lead to their schemas, then for good.
"""

from dataclasses import replace

from headrace.gateway.registry.error import (
    context_not_empty,
    not_permitted,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from headrace.gateway.registry.state.record import (
    Record,
    config_record,
    context_record,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
)
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.setting import Mode, mode_in_scope
from headrace.gateway.registry.state.subject_name import SubjectName
from headrace.gateway.registry.view import Plan


def delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> Plan:
    """Plan the end of a subject; the answer lists its versions.

    Raises:
        RegistryError: 40401, 40404, 40405, 42205, 42206.
    """
    _check_writable(state, subject)
    every = state.versions(subject, deleted=True)
    living = [each for each in every if not each.deleted]
    if not every:
        raise subject_not_found(subject)
    if permanent:
        if living:
            raise subject_not_soft_deleted(subject)
        for each in every:
            _check_unreferenced(state, subject, each.version, whole_subject=True)
        versions = [each.version for each in every]
        ends = [schema_tombstone(subject, each) for each in versions]
        return Plan(versions, [*_keep_id(state, subject), *ends])
    if not living:
        raise subject_soft_deleted(subject)
    for each in living:
        _check_unreferenced(state, subject, each.version, whole_subject=True)
    records = [
        delete_subject_record(subject, living[-1].version),
        *_without_settings(state, subject),
    ]
    return Plan([each.version for each in living], records)


def delete_version(state: RegistryState, subject: str, version: int, *, permanent: bool) -> Plan:
    """Plan the end of a version; the answer is its number.

    Raises:
        RegistryError: 40401, 40402, 40406, 40407, 42205, 42206.
    """
    _check_writable(state, subject)
    if not state.versions(subject, deleted=True):
        raise subject_not_found(subject)
    schema = state.version(subject, version)
    if schema is None:
        raise version_not_found(version)
    if permanent and not schema.deleted:
        raise version_not_soft_deleted(subject, version)
    if schema.deleted and not permanent:
        raise version_soft_deleted(subject, version)
    _check_unreferenced(state, subject, version)
    if permanent:
        return Plan(version, [*_keep_id(state, subject), schema_tombstone(subject, version)])
    records = [schema_record(replace(schema, deleted=True))]
    if len(state.versions(subject)) == 1:
        records += _without_settings(state, subject)
    return Plan(version, records)


def delete_context(state: RegistryState, context: str) -> Plan:
    """Plan the end of a context without subjects.

    Raises:
        RegistryError: 42211.
    """
    name = SubjectName(context, "").text
    if state.subjects(name, deleted=True):
        raise context_not_empty(context)
    return Plan(None, [context_record(context, present=False), *_without_settings(state, name)])


def erase_subject(state: RegistryState, subject: str) -> list[Record]:
    """Return the records that end a subject for good, deleted softly before or not.

    Raises:
        RegistryError: 42205, 42206.
    """
    _check_writable(state, subject)
    versions = [each.version for each in state.versions(subject, deleted=True)]
    for version in versions:
        _check_unreferenced(state, subject, version, whole_subject=True)
    ends = [schema_tombstone(subject, each) for each in versions]
    return [*_keep_id(state, subject), *ends, *_without_settings(state, subject)]


def _keep_id(state: RegistryState, subject: str) -> list[Record]:
    return state.keep_highest_id(SubjectName.of(subject).context)


def _without_settings(state: RegistryState, subject: str) -> list[Record]:
    """Return the records that end a subject's own configuration and mode."""
    records = []
    if subject in state.modes:
        records.append(mode_record(subject, None))
    if subject in state.configs:
        records.append(config_record(subject, None))
    return records


def _check_unreferenced(
    state: RegistryState, subject: str, version: int, *, whole_subject: bool = False
) -> None:
    """Refuse what others refer to. Versions that go with it do not count."""
    for each in state.referrers(subject, version):
        if not whole_subject or each.subject != subject:
            raise reference_exists(subject, version)


def _check_writable(state: RegistryState, subject: str) -> None:
    if mode_in_scope(state, subject) not in (Mode.READWRITE, Mode.IMPORT):
        name = SubjectName.of(subject)
        raise not_permitted(
            f"Subject {name.subject} in context {name.context} is in read-only mode"
        )
