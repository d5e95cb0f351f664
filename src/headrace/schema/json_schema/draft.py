"""The drafts of JSON Schema, and which of them a document is written in."""

from enum import IntEnum
from typing import Any, Final


class Draft(IntEnum):
    """The drafts in their order."""

    FOUR = 4
    SIX = 6
    SEVEN = 7
    D2019_09 = 2019
    D2020_12 = 2020

    @property
    def id_keyword(self) -> str:
        return "id" if self is Draft.FOUR else "$id"


_URIS: Final = {
    "json-schema.org/draft-04/schema": Draft.FOUR,
    "json-schema.org/draft-06/schema": Draft.SIX,
    "json-schema.org/draft-07/schema": Draft.SEVEN,
    "json-schema.org/draft/2019-09/schema": Draft.D2019_09,
    "json-schema.org/draft/2020-12/schema": Draft.D2020_12,
}


def draft_of(document: Any) -> Draft:
    """Return the draft that `$schema` names; draft 7 without one, or with one that is not known."""
    uri = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(uri, str):
        return Draft.SEVEN
    return _URIS.get(_bare(uri), Draft.SEVEN)


def is_metaschema(uri: str) -> bool:
    """Return whether a URI names a draft's own schema; what refers to it accepts any schema."""
    return _bare(uri) in _URIS


def _bare(uri: str) -> str:
    return uri.partition("://")[2].rstrip("#/")
