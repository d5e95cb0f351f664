"""The schema in the body of a request."""

from headrace.gateway.registry.access.subject_users import can_read, can_write
from headrace.gateway.registry.error import RegistryError, bad_request, invalid_schema
from headrace.gateway.registry.registration import MOST_ID, Candidate
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.record import read_references
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.rule_set import read_metadata, read_rule_set
from headrace.gateway.registry.state.setting import resolve_alias
from headrace.gateway.registry.state.stored_schema import Json, StoredSchema
from headrace.gateway.registry.state.subject_name import SubjectName
from headrace.gateway.registry.view import RegistryView
from headrace.schema.schema import Reference, SchemaType


def follow_alias(state: RegistryState, request: Request, *, write: bool = False) -> str:
    """Return the subject of a path, or the one that its alias names.

    The right to a name is none to what it stands for: it is checked again.

    Raises:
        RegistryError: 40301.
    """
    subject = resolve_alias(state, request.subject)
    rights = request.rights
    if subject != request.subject and not (
        can_write(rights, subject) if write else can_read(rights, subject)
    ):
        raise RegistryError(
            40301,
            f"User is denied {'write' if write else 'read'} access to subject '{subject}', "
            f"which '{request.subject}' is an alias of",
        )
    return subject


def check_context(request: Request, subject: str, what: str) -> None:
    """Refuse what touches the ids of a whole context to who may not write all of it.

    Raises:
        RegistryError: 40301.
    """
    context = SubjectName.of(subject).context
    if not can_write(request.rights, SubjectName(context, "").text):
        raise RegistryError(
            40301, f"{what} take write access to all subjects of context '{context}'"
        )


def aliased_subject(view: RegistryView, request: Request, *, write: bool = False) -> str:
    """Return the subject of a path, or the one that its alias names.

    Raises:
        RegistryError: 40301.
    """
    return view.read(lambda state: follow_alias(state, request, write=write))


def read_candidate(view: RegistryView, request: Request, *, write: bool = False) -> Candidate:
    """Return the schema of a request to register, find or compare it.

    Args:
        write: whether it is to be registered.

    Raises:
        RegistryError: 400, 40301, 42201, 42210.
    """
    subject = aliased_subject(view, request, write=write)
    return candidate_of(view, request, subject, request.members)


def candidate_of(view: RegistryView, request: Request, subject: str, body: Json) -> Candidate:
    """Return the schema of a body for a subject.

    Raises:
        RegistryError: 400, 40301, 42201, 42210.
    """
    metadata, rule_set = read_metadata(body.get("metadata")), read_rule_set(body.get("ruleSet"))
    text, kind, references = body.get("schema"), _type(body), _references(body)
    if text is None and (metadata is not None or rule_set is not None):
        latest = view.read(lambda state: state.latest(subject))
        if latest is not None:
            text, kind, references = _parts(latest)
    if not isinstance(text, str) or not text.strip():
        raise invalid_schema("Empty schema")
    candidate = Candidate(
        subject,
        kind,
        text,
        references,
        metadata,
        rule_set,
        read_number(body, "version", 0),
        read_number(body, "id", -1),
        request.flag("normalize"),
    )
    _check_references(request, candidate)
    return candidate


def _check_references(request: Request, candidate: Candidate) -> None:
    """Refuse references to what the sender may not read: an answer could show their texts."""
    name = SubjectName.of(candidate.subject)
    for each in candidate.references:
        if not can_read(request.rights, name.sibling(each.subject).text):
            raise RegistryError(40301, f"User is denied read access to subject '{each.subject}'")


def _parts(schema: StoredSchema) -> tuple[str, SchemaType, tuple[Reference, ...]]:
    return schema.text, schema.type, schema.references


def _type(body: Json) -> SchemaType:
    name = body.get("schemaType") or SchemaType.AVRO
    try:
        return SchemaType(name)
    except ValueError:
        known = ", ".join(each.value for each in SchemaType)
        raise invalid_schema(f"Invalid schema type {name!r}: write one of {known}") from None


def _references(body: Json) -> tuple[Reference, ...]:
    try:
        return read_references(body.get("references"))
    except ValueError as error:
        raise bad_request(str(error)) from error


def read_number(body: Json, name: str, default: int) -> int:
    """Return a version or id in a body; -1 stands for none.

    Raises:
        RegistryError: 400.
    """
    value = body.get(name)
    if value is None or value == -1:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_ID:
        raise bad_request(f"{name} must be a number from 0 to {MOST_ID}")
    return value
