"""The documents that a schema is made of, and what a reference in one of them points to.

A place is named by a URI: of the document, or of a schema inside that has an id of its own; then a
JSON pointer, or an anchor. Nothing is ever fetched: what is not among the references handed in is
an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from headrace.schema import json_text
from headrace.schema.error import InvalidSchema
from headrace.schema.json_schema.draft import Draft, draft_of, is_metaschema
from headrace.schema.limit import WorkLimit, name_limit

# Values under these keywords are data, not schemas.
_DATA: Final = frozenset(["enum", "const", "default", "examples"])
# The base of a document without an id; a host that cannot exist (RFC 2606).
_ROOT: Final = "http://schema.invalid/"


@dataclass(frozen=True, slots=True)
class Place:
    """A schema within its document: value, URI that its references start from, draft."""

    value: Any
    base: str
    draft: Draft


def _joined(base: str, reference: str, names: WorkLimit) -> str:
    """Join two URIs, those of schemes without a path (urn:) included."""
    names.spend(len(base) + len(reference))
    if reference.startswith("#"):
        return urldefrag(base)[0] + reference
    try:
        return urljoin(base, reference)
    except ValueError:
        raise InvalidSchema(f"{reference[:60]!r} is no URI") from None


def _is_index(key: str) -> bool:
    """Return whether a step of a pointer can be a place in a list; Python reads no longer numbers
    than 4,300 digits."""
    return key.isascii() and key.isdecimal() and len(key) < 10


class DocumentSet:
    """The schema handed in and those that it refers to, by URI."""

    def __init__(self, root: Any, resolved: Mapping[str, str]) -> None:
        self._places: dict[str, Place] = {}
        self._bases: dict[int, str] = {}
        self._names = name_limit()
        draft = draft_of(root)
        own = root.get(draft.id_keyword) if isinstance(root, dict) else None
        self._base = _joined(_ROOT, own, self._names) if isinstance(own, str) else _ROOT
        for name, text in resolved.items():
            self._add_reference(name, text)
        self.root = self._add(root, self._base)

    def find(self, reference: str, place: Place) -> Place | None:
        """Return what a reference at a place points to; None for a draft's own schema.

        Raises:
            InvalidSchema: it points to nothing that is known.
        """
        if is_metaschema(reference):
            return None
        uri, fragment = urldefrag(_joined(place.base, reference, self._names))
        found = self._places.get(uri) or self._places.get(urldefrag(reference)[0])
        if found is None:
            raise InvalidSchema(
                f"$ref {reference!r} points to no schema that is known here;"
                " add a reference with this name"
            )
        if not fragment:
            return found
        if not fragment.startswith("/"):
            anchored = self._places.get(f"{found.base}#{fragment}") or self._places.get(
                f"{uri}#{fragment}"
            )
            if anchored is None:
                raise InvalidSchema(f"$ref {reference!r} points to no anchor of its document")
            return anchored
        return self._pointed(found, fragment, reference)

    def base_of(self, value: dict[str, Any], outer: str, draft: Draft) -> str:
        """Return the URI that references inside a schema start from."""
        own = value.get(draft.id_keyword)
        if not isinstance(own, str) or own.startswith("#"):
            return outer
        return urldefrag(_joined(outer, own, self._names))[0]

    def _pointed(self, found: Place, pointer: str, reference: str) -> Place:
        value, base = found.value, found.base
        for step in pointer[1:].split("/"):
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(value, list) and _is_index(key) and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, dict) and key in value:
                value = value[key]
            else:
                raise InvalidSchema(f"$ref {reference!r} points to nothing: there is no {key!r}")
            if isinstance(value, dict):
                base = self._bases.get(id(value), base)
        if not isinstance(value, dict | bool):
            raise InvalidSchema(f"$ref {reference!r} points to what is no schema")
        return Place(value, base, found.draft)

    def _add_reference(self, name: str, text: str) -> None:
        try:
            value = json_text.load(text)
        except InvalidSchema as error:
            raise InvalidSchema(f"in the referenced schema {name!r}: {error}") from None
        uri = urldefrag(_joined(self._base, name, self._names))[0]
        place = self._add(value, uri)
        for other in (uri, name, _joined(_ROOT, name, self._names)):
            self._places.setdefault(other, place)

    def _add(self, document: Any, uri: str) -> Place:
        """Enter a document and every schema in it that has an id or an anchor."""
        draft = draft_of(document)
        base = urldefrag(uri)[0]
        if isinstance(document, dict):
            base = self.base_of(document, base, draft)
        root = Place(document, base, draft)
        self._places.setdefault(base, root)
        waiting: list[tuple[Any, str]] = [(document, base)]
        while waiting:
            value, outer = waiting.pop()
            if isinstance(value, list):
                waiting += [(each, outer) for each in value]
            elif isinstance(value, dict):
                inner = self.base_of(value, outer, draft)
                self._bases[id(value)] = inner
                self._enter(value, inner, outer, draft)
                waiting += [(each, inner) for key, each in value.items() if key not in _DATA]
        return root

    def _enter(self, value: dict[str, Any], inner: str, outer: str, draft: Draft) -> None:
        place = Place(value, inner, draft)
        if inner != outer:
            self._places.setdefault(inner, place)
        own = value.get(draft.id_keyword)
        if isinstance(own, str) and own.startswith("#"):
            self._places.setdefault(f"{inner}{own}", place)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(value.get(keyword), str):
                self._places.setdefault(f"{inner}#{value[keyword]}", place)
