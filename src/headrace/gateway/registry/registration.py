"""Registers, finds and checks schemas: what a request comes to, given the state.

Rule 1: a schema that its subject has already is returned as it is, in every mode. So producers that
register what they write with go on in a read-only registry.
Rule 2: the same text with the same references, metadata and rules has one id per context.
Rule 3: versions count on past softly deleted ones. A number that was deleted for good may come
again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from headrace.gateway.registry.checker import (
    LATEST,
    SchemaSource,
    find_reference,
    resolve_references,
    schema_text,
    text_digest,
)
from headrace.gateway.registry.error import (
    RegistryError,
    id_does_not_match,
    incompatible,
    invalid_schema,
    invalid_subject,
    not_permitted,
)
from headrace.gateway.registry.state.record import KeyType, Record, context_record, schema_record
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.rule_set import merged_metadata, merged_rule_set
from headrace.gateway.registry.state.setting import (
    Mode,
    config_in_scope,
    level_in_scope,
    mode_in_scope,
    policy_in_scope,
)
from headrace.gateway.registry.state.stored_schema import Json, StoredSchema
from headrace.gateway.registry.state.subject_name import DEFAULT_CONTEXT, SubjectName
from headrace.gateway.registry.tag_request import NO_TAGS, TagRequest
from headrace.gateway.registry.view import Plan, RegistryView
from headrace.schema.compatibility import CompatibilityLevel
from headrace.schema.incompatibility import Incompatibility
from headrace.schema.schema import Reference, SchemaType
from headrace.schema.tag import TagChange

MOST_ID: Final = 2**31 - 1
MOST_ID_STEP: Final = 1_000_000
"""How far above the highest one an imported id may be: the ids after it are given out next."""

MOST_CONTEXTS: Final = 1000
MOST_CONTEXT_BYTES: Final = 128
"""One record keeps the names of all contexts whose schemas were deleted for good."""

_MOST_MESSAGES: Final = 100
_VERSION: Final = "confluent:version"
_SHOWN_LETTERS: Final = 4096


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schema in a request.

    Attributes:
        version, id: what an import gives it; 0 and -1 otherwise.
        tags: what is to be changed in it before it is registered.
    """

    subject: str
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    version: int = 0
    id: int = -1
    normalize: bool = False
    tags: TagRequest = NO_TAGS


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A candidate, parsed, in the form in which it is stored and compared."""

    source: SchemaSource
    text: str
    references: tuple[Reference, ...]
    metadata: Json | None
    rule_set: Json | None
    normalized: bool


def register(view: RegistryView, candidate: Candidate) -> Plan:
    """Plan a registration; the answer is the `StoredSchema` that the subject then has.

    Raises:
        RegistryError: 42201, 42205, 42207, 42208, 409.
    """
    if not SubjectName.of(candidate.subject).is_valid:
        raise invalid_subject(candidate.subject)
    prepared = _prepare(view, candidate)
    known = find(view, candidate, prepared)
    if candidate.tags and known != view.read(lambda state: state.latest(candidate.subject)):
        known = None  # the latest version is to have the tags
    if known is not None and (
        candidate.id < 0 or (candidate.id == known.id and candidate.version in (0, known.version))
    ):
        return Plan(known)
    mode = view.read(lambda state: mode_in_scope(state, candidate.subject))
    _check_mode(candidate, mode)
    if mode is not Mode.IMPORT:
        _check_compatible(view, candidate, prepared)
    return view.read(lambda state: _plan(state, candidate, prepared))


def _plan(state: RegistryState, candidate: Candidate, prepared: _Prepared) -> Plan:
    name = SubjectName.of(candidate.subject)
    last = max(
        (each.version for each in state.versions(candidate.subject, deleted=True)), default=0
    )
    version = candidate.version or last + 1
    draft = StoredSchema(
        candidate.subject,
        version,
        candidate.id,
        candidate.type,
        prepared.text,
        prepared.references,
        _numbered_metadata(candidate, prepared.metadata, version),
        prepared.rule_set,
    )
    if candidate.id >= 0:
        highest = state.max_id(name.context)
        # The first schema of a context may come from a registry that has long been counting.
        most = highest + MOST_ID_STEP if highest else MOST_ID - MOST_ID_STEP
        if candidate.id > most:
            raise not_permitted(
                f"Id {candidate.id} is above {most}, the highest that context {name.context} takes "
                f"after {highest}: import schemas with lower ids first"
            )
        for each in state.by_id(candidate.id, name.context):
            if (each.text, each.type) != (draft.text, draft.type):
                raise id_does_not_match(candidate.id)
        at_place = state.version(candidate.subject, draft.version)
        if at_place is not None and not at_place.deleted and at_place.text != draft.text:
            raise not_permitted(
                f"Version {draft.version} of subject {candidate.subject} is there already, with "
                "another schema"
            )
        schema = draft
    else:
        if candidate.version not in (0, last + 1):
            raise invalid_schema(
                f"Version {candidate.version} is not one more than the previous version {last}"
            )
        schema = _with_id(state, draft, name.context)
    records: list[Record] = []
    contexts = state.contexts() if name.context != DEFAULT_CONTEXT else [DEFAULT_CONTEXT]
    if name.context not in contexts:
        _check_new_context(state, name, contexts)
        records.append(context_record(name.context))
    return Plan(schema, [*records, schema_record(schema)])


def _numbered_metadata(candidate: Candidate, metadata: Json | None, version: int) -> Json | None:
    """Return metadata with the number of the version, if it has one or tags were changed.

    So a schema that differs in tags only from that of another subject has an id of its own.
    """
    has_number = _property(metadata, _VERSION) is not None
    if candidate.id >= 0 or not (has_number or candidate.tags):
        return metadata
    return merged_metadata(metadata, {"properties": {_VERSION: str(version)}})


def _check_new_context(state: RegistryState, name: SubjectName, contexts: Sequence[str]) -> None:
    """Refuse a context past the limits. Those of the past count as long as their ids are kept.

    Raises:
        RegistryError: 42205, 42208.
    """
    if len(name.context.encode()) > MOST_CONTEXT_BYTES:
        raise invalid_subject(name.text)
    known = state.contexts_with_kept_ids.union(contexts)
    if name.context not in known and len(known) >= MOST_CONTEXTS:
        raise not_permitted(
            f"Context {name.context} is not created: a registry has at most {MOST_CONTEXTS}, "
            "deleted ones with them. Use one that is there"
        )


def _with_id(state: RegistryState, draft: StoredSchema, context: str) -> StoredSchema:
    """Give a schema the id that it has in its context, or the next one."""
    known = state.ids_of_guid(draft.guid).get(context)
    if known is not None and all(each.type is draft.type for each in state.by_id(known, context)):
        return _numbered(draft, known)
    following = state.max_id(context) + 1
    if following > MOST_ID:
        raise not_permitted(f"Context {context} has used all ids up to {MOST_ID}")
    return _numbered(draft, following)


def numbered_after(plan: Plan, others: Sequence[StoredSchema]) -> tuple[StoredSchema, list[Record]]:
    """Return what a registration comes to after others of the same request, which it did not see:
    a schema that is new in its context has the id after theirs."""
    schema: StoredSchema = plan.answer
    context = SubjectName.of(schema.subject).context
    near = [each for each in others if SubjectName.of(each.subject).context == context]
    same = next((each for each in near if each.guid == schema.guid), None)
    if plan.records and same is not None:
        schema = _numbered(schema, same.id)
    elif plan.records and any(each.id >= schema.id for each in near):
        schema = _numbered(schema, max(each.id for each in near) + 1)
    records = [
        schema_record(schema) if each.key.type is KeyType.SCHEMA else each for each in plan.records
    ]
    return schema, records


def _numbered(draft: StoredSchema, schema_id: int) -> StoredSchema:
    return StoredSchema(
        draft.subject,
        draft.version,
        schema_id,
        draft.type,
        draft.text,
        draft.references,
        draft.metadata,
        draft.rule_set,
    )


def _check_mode(candidate: Candidate, mode: Mode) -> None:
    name = SubjectName.of(candidate.subject)
    where = f"Subject {name.subject} in context {name.context}"
    if mode not in (Mode.READWRITE, Mode.IMPORT):
        raise not_permitted(f"{where} is in read-only mode")
    if candidate.id >= 0 and mode is not Mode.IMPORT:
        raise not_permitted(f"{where} is not in import mode")
    if candidate.id < 0 and mode is Mode.IMPORT:
        raise not_permitted(f"{where} is in import mode: give the schema its id")


def _prepare(view: RegistryView, candidate: Candidate) -> _Prepared:
    """Parse a candidate and give it the metadata and rules of its subject's configuration."""

    def gather(
        state: RegistryState,
    ) -> tuple[Json, StoredSchema | None, tuple[Reference, ...], dict[str, str]]:
        pinned = _pinned(state, candidate)
        resolved = resolve_references(state, candidate.subject, pinned)
        config = config_in_scope(state, candidate.subject)
        return config, state.latest(candidate.subject), pinned, resolved

    config, previous, references, resolved = view.read(gather)
    metadata, rule_set = candidate.metadata, candidate.rule_set
    if candidate.id < 0:
        if metadata is None and previous is not None:
            metadata = previous.metadata
        if rule_set is None and previous is not None:
            rule_set = previous.rule_set
        metadata = merged_metadata(
            config.get("defaultMetadata"), metadata, config.get("overrideMetadata")
        )
        rule_set = merged_rule_set(
            config.get("defaultRuleSet"), rule_set, config.get("overrideRuleSet")
        )
    source = SchemaSource(
        schema_text(candidate.type, candidate.text, references, metadata), resolved
    )
    parsed = view.checker.parse(source)
    if candidate.tags:
        tagged = view.checker.with_tags(parsed, _tag_change(view, candidate, previous))
        source = SchemaSource(schema_text(candidate.type, tagged, references, metadata), resolved)
        parsed = view.checker.parse(source)
    normalized = candidate.normalize or bool(config.get("normalize"))
    if normalized:
        text, references = view.checker.normalized(parsed), parsed.normalized_references
    else:
        text = parsed.canonical
    return _Prepared(source, text, references, metadata, rule_set, normalized)


def _tag_change(
    view: RegistryView, candidate: Candidate, previous: StoredSchema | None
) -> TagChange:
    change = candidate.tags.change
    if not candidate.tags.propagate or previous is None or previous.type is not candidate.type:
        return change
    return replace(change, keep=view.checker.tags(view.parsed(previous)))


def _pinned(state: RegistryState, candidate: Candidate) -> tuple[Reference, ...]:
    """Return the references with versions instead of -1 for the latest one."""
    name = SubjectName.of(candidate.subject)
    return tuple(
        Reference(each.name, each.subject, find_reference(state, name, each, deleted=False).version)
        if each.version == LATEST
        else each
        for each in candidate.references
    )


def find(
    view: RegistryView,
    candidate: Candidate,
    prepared: _Prepared | None = None,
    *,
    deleted: bool = False,
) -> StoredSchema | None:
    """Return the latest version of a subject that is the candidate's schema.

    Metadata and rules are compared if the candidate has some.

    Raises:
        RegistryError: 42201.
    """
    prepared = prepared or _prepare(view, candidate)
    versions = view.read(lambda state: state.versions(candidate.subject, deleted=deleted))
    same_kind = [
        each
        for each in reversed(versions)
        if each.type is candidate.type and _same_extras(each, candidate, prepared)
    ]
    for each in same_kind:
        if each.text == prepared.text and each.references == prepared.references:
            return each
    # Another registry may have stored the same schema with other spaces, or not normalised.
    wanted = (text_digest(prepared.text), prepared.references)
    for each in same_kind:
        try:
            forms = view.forms(each)
        except RegistryError as error:
            if error.status != HTTPStatus.UNPROCESSABLE_ENTITY:
                raise
            continue
        if wanted == (forms.normalized if prepared.normalized else forms.canonical):
            return each
    return None


def _same_extras(schema: StoredSchema, candidate: Candidate, prepared: _Prepared) -> bool:
    own = _without_number(schema.metadata)
    wanted = (_without_number(candidate.metadata), _without_number(prepared.metadata))
    return (candidate.metadata is None or own in wanted) and (
        candidate.rule_set is None or schema.rule_set in (candidate.rule_set, prepared.rule_set)
    )


def _without_number(metadata: Json | None) -> Json | None:
    """Return metadata without the number of its version, which the registry gives."""
    if _property(metadata, _VERSION) is None:
        return metadata
    properties = {**(metadata or {})["properties"]}
    del properties[_VERSION]
    others = {name: each for name, each in (metadata or {}).items() if name != "properties"}
    return {**others, "properties": properties} if properties else others


def _check_compatible(view: RegistryView, candidate: Candidate, prepared: _Prepared) -> None:
    earlier = view.read(lambda state: state.versions(candidate.subject))
    messages = _judge(view, candidate.subject, prepared.source, earlier, prepared.metadata)
    if messages:
        raise incompatible(
            "Schema being registered is incompatible with an earlier schema for subject "
            f'"{candidate.subject}", details: [{", ".join(messages)}]'
        )


def compare(view: RegistryView, candidate: Candidate, earlier: Sequence[StoredSchema]) -> list[str]:
    """Return what stands against a candidate, by the level that holds for its subject.

    Raises:
        RegistryError: 42201.
    """
    prepared = _prepare(view, candidate)
    return _judge(view, candidate.subject, prepared.source, earlier, prepared.metadata)


def _judge(
    view: RegistryView,
    subject: str,
    source: SchemaSource,
    earlier: Sequence[StoredSchema],
    metadata: Mapping[str, Any] | None,
) -> list[str]:
    """Compare a schema with earlier versions; return what stands against it."""
    level, policy, group = view.read(
        lambda state: (
            level_in_scope(state, subject),
            policy_in_scope(state, subject),
            config_in_scope(state, subject).get("compatibilityGroup"),
        )
    )
    if group:
        own = _property(metadata, group)
        earlier = [each for each in earlier if _property(each.metadata, group) == own]
    if level is CompatibilityLevel.NONE or not earlier:
        return []
    if not level.value.endswith("_TRANSITIVE"):
        earlier = earlier[-1:]
    sources = [partial(view.source, each) for each in earlier]
    found = view.checker.check(level, policy, source, sources)
    return _messages(found, earlier, level)


def _property(metadata: Mapping[str, Any] | None, name: str) -> Any:
    return ((metadata or {}).get("properties") or {}).get(name)


def _messages(
    found: Sequence[Incompatibility], earlier: Sequence[StoredSchema], level: CompatibilityLevel
) -> list[str]:
    if not found:
        return []
    messages = [str(each) for each in found[:_MOST_MESSAGES]]
    if len(found) > _MOST_MESSAGES:
        messages.append(f"{{{len(found) - _MOST_MESSAGES} more differences}}")
    old = earlier[found[0].earlier]
    shown = old.text if len(old.text) <= _SHOWN_LETTERS else old.text[:_SHOWN_LETTERS] + "..."
    return [
        *messages,
        f"{{oldSchemaVersion: {old.version}}}",
        f"{{oldSchema: '{shown}'}}",
        f"{{compatibility: '{level.value}'}}",
    ]
