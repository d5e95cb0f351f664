"""From JSON to a tree of schemas.

1. `$ref` stands alone up to draft 7: keywords beside it are not looked at. Later it is one schema
   among those beside it.
2. Without `type`, keywords say what a schema is about: `minLength` alone makes a string of it.
3. A list of types is an anyOf of them, each with its own keywords.
4. What is several things at once is an allOf of them.
"""

from typing import Any, Final, get_args

from headrace.schema import json_text
from headrace.schema.error import InvalidSchema
from headrace.schema.json_schema.document import DocumentSet, Place
from headrace.schema.json_schema.draft import Draft
from headrace.schema.json_schema.keyword import check_keywords
from headrace.schema.json_schema.node import (
    Anything,
    Array,
    Boolean,
    Combined,
    Conditional,
    Constant,
    Criterion,
    Enumeration,
    Node,
    Not,
    Nothing,
    Null,
    Number,
    Object,
    Ref,
    String,
)
from headrace.schema.json_schema.pattern import PatternTable
from headrace.schema.limit import MAX_SHOWN_CHARACTERS

_ARRAY_WORDS: Final = frozenset(
    [
        "items",
        "prefixItems",
        "additionalItems",
        "unevaluatedItems",
        "contains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minContains",
        "maxContains",
    ]
)
_OBJECT_WORDS: Final = frozenset(
    [
        "properties",
        "patternProperties",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "required",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "minProperties",
        "maxProperties",
    ]
)
_NUMBER_WORDS: Final = frozenset(
    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
)
_STRING_WORDS: Final = frozenset(["minLength", "maxLength", "pattern"])
_REFS: Final = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaLoader:
    """Loads one document. A schema that is reached on several ways is one node."""

    def __init__(self, documents: DocumentSet) -> None:
        self._documents = documents
        self._known: dict[int, Node] = {}
        self._patterns = PatternTable()
        self._waiting: list[tuple[Ref, Place]] = []
        self._refs: list[Ref] = []

    def load(self) -> Node:
        """Return the root, every reference resolved."""
        root = self._node(self._documents.root, "#")
        while self._waiting:
            ref, place = self._waiting.pop()
            found = self._documents.find(ref.text, place)
            ref.target = Anything() if found is None else self._node(found, ref.text)
        self._shorten_chains()
        return root

    def _shorten_chains(self) -> None:
        """Let every reference lead to a schema in one step, so that no walk is longer.

        Raises:
            InvalidSchema: references lead to each other in a circle.
        """
        done: set[int] = set()
        for ref in self._refs:
            chain: dict[int, Ref] = {}
            node: Node | None = ref
            while isinstance(node, Ref) and id(node) not in done:
                if id(node) in chain:
                    raise InvalidSchema(
                        f"$ref {node.text[:60]!r} refers to itself and to nothing else"
                    )
                chain[id(node)] = node
                node = node.target
            end = node.target if isinstance(node, Ref) else node
            for each in chain.values():
                each.target = end
            done |= chain.keys()

    def _node(self, place: Place, path: str) -> Node:
        value = place.value
        if isinstance(value, bool):
            return Anything() if value else Nothing()
        if not isinstance(value, dict):
            raise InvalidSchema(f"the schema at {path} must be an object, true or false")
        known = self._known.get(id(value))
        if known is None:
            check_keywords(value, place.draft, path, self._patterns)
            base = self._documents.base_of(value, place.base, place.draft)
            known = _Reading(self, Place(value, base, place.draft), path).node()
            known.has_default = "default" in value
            known.source = value
            self._known[id(value)] = known
        return known

    def inner(self, value: Any, place: Place, path: str) -> Node:
        """Return the node of a schema inside another."""
        return self._node(Place(value, place.base, place.draft), path)

    def ref(self, text: str, place: Place) -> Ref:
        """Return a node whose target is looked up once the document has been walked."""
        ref = Ref(text=text)
        self._waiting.append((ref, place))
        self._refs.append(ref)
        return ref


class _Reading:
    """Reads one schema object."""

    def __init__(self, loader: SchemaLoader, place: Place, path: str) -> None:
        self._loader = loader
        self._place = place
        self._path = path
        self._value: dict[str, Any] = place.value

    def node(self) -> Node:
        value, loader = self._value, self._loader
        if "$ref" in value and self._place.draft < Draft.D2019_09:
            self._definitions()
            return loader.ref(value["$ref"], self._place)
        parts: list[Node] = [
            loader.ref(value[keyword], self._place)
            for keyword in _REFS
            if isinstance(value.get(keyword), str)
        ]
        if "enum" in value:
            texts = frozenset(json_text.dump(each, sort_keys=True) for each in value["enum"])
            parts.append(Enumeration(values=texts))
        for criterion in get_args(Criterion):
            if criterion in value:
                branches = tuple(self._list(criterion))
                parts.append(Combined(criterion=criterion, branches=branches))
        if "not" in value:
            parts.append(Not(inner=self._inner("not")))
        if "const" in value and self._place.draft >= Draft.SIX:
            parts.append(Constant(value=json_text.dump(value["const"], sort_keys=True)))
        parts += self._conditional()
        parts += self._typed()
        self._definitions()
        if not parts:
            return Anything()
        if len(parts) == 1:
            return parts[0]
        return Combined(criterion="allOf", branches=tuple(parts))

    def _conditional(self) -> list[Node]:
        inner = [self._optional(word) for word in ("if", "then", "else")]
        return [Conditional()] if any(inner) else []

    def _typed(self) -> list[Node]:
        kind = self._value.get("type")
        if isinstance(kind, str):
            return [self._of_type(kind)]
        if isinstance(kind, list):
            branches = tuple(map(self._of_type, kind))
            return [Combined(criterion="anyOf", branches=branches)]
        words = self._value.keys()
        parts: list[Node] = []
        if words & _ARRAY_WORDS:
            parts.append(self._array())
        if words & _OBJECT_WORDS:
            parts.append(self._object())
        if words & _NUMBER_WORDS:
            parts.append(self._number(is_integer=False))
        if words & _STRING_WORDS:
            parts.append(self._string())
        return parts

    def _of_type(self, kind: str) -> Node:
        match kind:
            case "null":
                return Null()
            case "boolean":
                return Boolean()
            case "string":
                return self._string()
            case "array":
                return self._array()
            case "object":
                return self._object()
        return self._number(is_integer=kind == "integer")

    def _string(self) -> String:
        get = self._value.get
        return String(
            min_length=get("minLength"), max_length=get("maxLength"), pattern=get("pattern")
        )

    def _number(self, is_integer: bool) -> Number:
        get = self._value.get
        minimum, maximum = get("minimum"), get("maximum")
        above, below = get("exclusiveMinimum"), get("exclusiveMaximum")
        # Draft 4 says `exclusiveMinimum: true` beside `minimum`.
        if isinstance(above, bool):
            minimum, above = (None, minimum) if above else (minimum, None)
        if isinstance(below, bool):
            maximum, below = (None, maximum) if below else (maximum, None)
        return Number(
            is_integer=is_integer,
            minimum=minimum,
            maximum=maximum,
            exclusive_minimum=above,
            exclusive_maximum=below,
            multiple_of=get("multipleOf"),
        )

    def _array(self) -> Array:
        value, get = self._value, self._value.get
        self._optional("contains")
        counts = "contains" in value and self._place.draft >= Draft.D2019_09
        modern = self._place.draft >= Draft.D2020_12
        items = value.get("items")
        all_items: Node | None = None
        additional: Node = Anything()
        prefix: tuple[Node, ...] = ()
        if modern and "prefixItems" in value:
            prefix = tuple(self._list("prefixItems"))
            additional = self._optional("items") or additional
        elif isinstance(items, list):
            prefix = tuple(self._list("items"))
        else:
            all_items = self._optional("items")
        if not modern:
            additional = self._optional("additionalItems") or additional
        return Array(
            items=all_items,
            prefix=prefix,
            additional=additional,
            unevaluated=self._since_2019("unevaluatedItems"),
            min_items=get("minItems"),
            max_items=get("maxItems"),
            min_contains=get("minContains", 1) if counts else None,
            max_contains=get("maxContains") if counts else None,
            is_unique=get("uniqueItems", False),
        )

    def _object(self) -> Object:
        get = self._value.get
        self._optional("propertyNames")
        names: dict[str, frozenset[str]] = {}
        schemas: dict[str, Node] = {}
        for word in ("dependencies", "dependentRequired", "dependentSchemas"):
            for key, each in get(word, {}).items():
                if isinstance(each, list):
                    names[key] = frozenset(each)
                else:
                    schemas[key] = self._at(each, f"{word}/{key}")
        return Object(
            properties=self._map("properties"),
            required=frozenset(get("required", ())),
            patterns=self._map("patternProperties"),
            additional=self._optional("additionalProperties") or Anything(),
            unevaluated=self._since_2019("unevaluatedProperties"),
            dependent_required=names,
            dependent_schemas=schemas,
            min_properties=get("minProperties"),
            max_properties=get("maxProperties"),
        )

    def _definitions(self) -> None:
        """Check definitions too, used or not."""
        for word in ("definitions", "$defs"):
            if isinstance(self._value.get(word), dict):
                self._map(word)

    def _since_2019(self, word: str) -> Node:
        if self._place.draft < Draft.D2019_09:
            return Anything()
        return self._optional(word) or Anything()

    def _optional(self, word: str) -> Node | None:
        return self._inner(word) if word in self._value else None

    def _inner(self, word: str) -> Node:
        return self._at(self._value[word], word)

    def _list(self, word: str) -> list[Node]:
        return [self._at(each, f"{word}/{i}") for i, each in enumerate(self._value[word])]

    def _map(self, word: str) -> dict[str, Node]:
        found = self._value.get(word, {})
        return {key: self._at(each, f"{word}/{key}") for key, each in found.items()}

    def _at(self, value: Any, word: str) -> Node:
        # The path is for messages only; a name may be as long as the document.
        path = f"{self._path}/{word[:MAX_SHOWN_CHARACTERS]}"[-MAX_SHOWN_CHARACTERS:]
        return self._loader.inner(value, self._place, path)
