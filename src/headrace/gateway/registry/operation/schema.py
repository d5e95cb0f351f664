"""Schemas by id and by GUID, and lists of them."""

from typing import Any, Final

from headrace.gateway.registry.access.subject_users import can_read
from headrace.gateway.registry.error import bad_request, schema_not_found
from headrace.gateway.registry.request import Request
from headrace.gateway.registry.state.registry_state import RegistryState
from headrace.gateway.registry.state.rule_set import has_rule_type
from headrace.gateway.registry.state.stored_schema import Json, StoredSchema
from headrace.gateway.registry.state.subject_name import DEFAULT_CONTEXT, SubjectName
from headrace.gateway.registry.tag_request import shown_tags
from headrace.gateway.registry.view import RegistryView

_DEFAULT_LIST: Final = 1000
MOST_LIST: Final = 20_000
_MOST_CHARACTERS: Final = 32 << 20


def list_types(_: RegistryView, __: Request) -> Any:
    return ["JSON", "PROTOBUF", "AVRO"]


def list_schemas(view: RegistryView, request: Request) -> Any:
    deleted, latest = request.flag("deleted"), request.flag("latestOnly")
    rule_type = request.query.get("ruleType")

    def gather(state: RegistryState) -> list[StoredSchema]:
        found: list[StoredSchema] = []
        for subject in state.subjects(request.prefix, deleted=deleted):
            if can_read(request.rights, subject):
                versions = state.versions(subject, deleted=deleted)
                found += versions[-1:] if latest else versions
        return found

    schemas = view.read(gather)
    if rule_type:
        schemas = [each for each in schemas if has_rule_type(each.rule_set, rule_type)]
    page = request.page(schemas, _DEFAULT_LIST, MOST_LIST)
    if sum(len(each.text) for each in page) > _MOST_CHARACTERS:
        raise bad_request(
            f"These schemas have more than {_MOST_CHARACTERS} characters: ask for fewer with limit"
        )
    return [each.entity() for each in page]


def places_of_id(
    state: RegistryState, request: Request, *, deleted: bool = True
) -> list[StoredSchema]:
    """Return the versions with the id of a path that its sender may read.

    They are those of the context; with a subject its own come first. A subject without a context
    is looked for in every context.

    Raises:
        RegistryError: 40403.
    """
    name = SubjectName.of(request.query_subject)
    found = list(state.by_id(request.schema_id, name.context))
    has_own = any(each.subject == name.text for each in found)
    if name.subject and name.context == DEFAULT_CONTEXT and not has_own:
        for context in state.contexts():
            wanted = SubjectName(context, name.subject).text
            own = [e for e in state.by_id(request.schema_id, context) if e.subject == wanted]
            if own:
                found = own
                break
    found = [
        each
        for each in found
        if can_read(request.rights, each.subject) and (deleted or not each.deleted)
    ]
    found.sort(key=lambda each: each.subject != name.text)
    if not found:
        raise schema_not_found(request.schema_id)
    return found


def schema_by_id(view: RegistryView, request: Request) -> Any:
    def gather(state: RegistryState) -> tuple[StoredSchema, int]:
        schema = places_of_id(state, request)[0]
        return schema, state.max_id(SubjectName.of(schema.subject).context)

    schema, max_id = view.read(gather)
    return {
        **description(view, request, schema),
        **({"maxId": max_id} if request.flag("fetchMaxId") else {}),
    }


def description(view: RegistryView, request: Request, schema: StoredSchema) -> Json:
    """Return a schema as an id leads to it."""
    found = schema.description()
    found["schema"] = formatted(view, request, schema)
    found["guid"] = schema.guid
    return {**found, **found_tags(view, request, schema)}


def found_tags(view: RegistryView, request: Request, schema: StoredSchema) -> Json:
    """Return the member of an answer with what is tagged in a schema, if that was asked for.

    Raises:
        RegistryError: 42201.
    """
    wanted = request.wanted_tags
    if not wanted:
        return {}
    return {"schemaTags": shown_tags(view.checker.tags(view.parsed(schema)), wanted)}


def formatted(view: RegistryView, request: Request, schema: StoredSchema) -> str:
    """Return the text of a schema in the format that a request names.

    Raises:
        RegistryError: 42201, its type has no such format.
    """
    form = request.query.get("format", "")
    if not form:
        return schema.text
    return view.checker.formatted(view.parsed(schema), form)


def schema_text_by_id(view: RegistryView, request: Request) -> Any:
    return formatted(view, request, view.read(lambda state: places_of_id(state, request)[0]))


def subjects_of_id(view: RegistryView, request: Request) -> Any:
    places = view.read(lambda state: places_of_id(state, request, deleted=request.flag("deleted")))
    names = sorted({each.subject for each in _of_subject(places, request)})
    return request.page(names, MOST_LIST, MOST_LIST)


def versions_of_id(view: RegistryView, request: Request) -> Any:
    places = view.read(lambda state: places_of_id(state, request, deleted=request.flag("deleted")))
    found = sorted((each.subject, each.version) for each in _of_subject(places, request))
    pairs = [{"subject": subject, "version": version} for subject, version in found]
    return request.page(pairs, MOST_LIST, MOST_LIST)


def _of_subject(places: list[StoredSchema], request: Request) -> list[StoredSchema]:
    name = SubjectName.of(request.query_subject)
    if not name.subject:
        return places
    return [each for each in places if SubjectName.of(each.subject).subject == name.subject]


def _of_guid(state: RegistryState, request: Request) -> dict[str, StoredSchema]:
    """Return a version per context that has the GUID of a path, and that may be read."""
    found = {}
    for context, schema_id in sorted(state.ids_of_guid(request.names["guid"].lower()).items()):
        for each in state.by_id(schema_id, context):
            if can_read(request.rights, each.subject):
                found[context] = each
                break
    return found


def schema_by_guid(view: RegistryView, request: Request) -> Any:
    found = view.read(lambda state: _of_guid(state, request))
    if not found:
        raise schema_not_found(request.names["guid"][:64])
    return description(view, request, next(iter(found.values())))


def ids_of_guid(view: RegistryView, request: Request) -> Any:
    found = view.read(lambda state: _of_guid(state, request))
    if not found:
        raise schema_not_found(request.names["guid"][:64])
    return [{"context": context, "id": each.id} for context, each in found.items()]
