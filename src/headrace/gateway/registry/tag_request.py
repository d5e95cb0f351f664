"""Which tags a request adds to a schema, and which it removes."""

from dataclasses import dataclass, field
from typing import Any, Final

from headrace.gateway.registry.error import bad_request
from headrace.gateway.registry.state.stored_schema import Json
from headrace.schema.tag import Entity, EntityType, TagChange, Tags

_MOST_ENTITIES: Final = 10_000
_MOST_TAGS: Final = 1000


@dataclass(frozen=True, slots=True)
class TagRequest:
    """What a request changes.

    Attributes:
        propagate: whether what is tagged in the latest version keeps its tags.
    """

    change: TagChange = field(default_factory=TagChange)
    propagate: bool = False

    def __bool__(self) -> bool:
        return bool(self.change.add or self.change.remove or self.propagate)


NO_TAGS: Final = TagRequest()


def read_tag_request(body: Json, add: str, remove: str) -> TagRequest:
    """Return what a body asks for.

    Args:
        add, remove: the members that list what is tagged.

    Raises:
        RegistryError: 400.
    """
    propagate = body.get("propagateSchemaTags")
    if not isinstance(propagate, bool | None):
        raise bad_request("propagateSchemaTags is true or false")
    change = TagChange(_tags(body, add), _tags(body, remove))
    return TagRequest(change, bool(propagate))


def _tags(body: Json, member: str) -> Tags:
    entries = body.get(member)
    if entries is None:
        return {}
    if not isinstance(entries, list) or len(entries) > _MOST_ENTITIES:
        raise bad_request(f"{member} is a list of at most {_MOST_ENTITIES} objects")
    found: dict[Entity, tuple[str, ...]] = {}
    for each in entries:
        entity, tags = _entry(each, member)
        found[entity] = (*found.get(entity, ()), *tags)
    return found


def _entry(value: Any, member: str) -> tuple[Entity, tuple[str, ...]]:
    members = value if isinstance(value, dict) else {}
    place, tags = members.get("schemaEntity"), members.get("tags")
    path, kind = (
        (place.get("entityPath"), place.get("entityType")) if isinstance(place, dict) else ("", "")
    )
    if not isinstance(path, str) or not path or kind not in tuple(EntityType):
        raise bad_request(
            f'{member} lists {{"schemaEntity": {{"entityPath": PATH, "entityType": "sr_field" or '
            '"sr_record"}, "tags": [TAG, ...]}'
        )
    if not isinstance(tags, list) or not all(isinstance(each, str) and each for each in tags):
        raise bad_request(f"{member}: the tags of '{path[:100]}' are a list of texts")
    if len(tags) > _MOST_TAGS:
        raise bad_request(f"{member}: '{path[:100]}' has more than {_MOST_TAGS} tags")
    return Entity(path.removeprefix("."), EntityType(kind)), tuple(tags)


def shown_tags(tags: Tags, wanted: list[str]) -> list[Json]:
    """Return what is tagged as answers have it: with one of the wanted tags, or `*` for any."""
    return [
        {
            "schemaEntity": {"entityPath": entity.path, "entityType": entity.type.value},
            "tags": list(each),
        }
        for entity, each in tags.items()
        if "*" in wanted or not set(wanted).isdisjoint(each)
    ]
