"""Serializers and deserializers, with a registry of their own."""

from typing import Any, cast

import pytest

from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import RegistryError
from headrace.serde.registered_schema import RegisteredSchema
from headrace.serde.registry_admin import RegistryAdmin
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings
from headrace.serde.serializer import Serializer


def record(*fields: tuple[str, str]) -> RegisteredSchema:
    listed = ", ".join(f'{{"name": "{name}", "type": "{kind}"}}' for name, kind in fields)
    text = SchemaText(SchemaType.AVRO, f'{{"type": "record", "name": "R", "fields": [{listed}]}}')
    return RegisteredSchema(5, None, None, None, text, parse(text))


def test_an_id_of_another_context_is_another_schema() -> None:
    """Both have the id 5, and a registry names no subject when it is asked by id."""
    serializer = Serializer(cast(Any, None))
    value = {"a": "x", "b": 7}
    theirs, ours = record(("b", "long"), ("a", "string")), record(("a", "string"), ("b", "long"))
    assert serializer.encode(value, theirs)[5:] == b"\x0e\x02x"
    assert serializer.encode(value, ours)[5:] == b"\x02x\x0e"


class Answers(RegistryClient):
    """A registry that gives answers by path, and notes what was asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__(RegistryClientSettings.of({"schema.registry.url": "http://127.0.0.1:1"}))
        self.answers = answers
        self.asked: list[str] = []

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append(f"{method} {path}")
        found = self.answers.get(path)
        if found is None:
            raise RegistryError("Schema not found", 404, 40403)
        return found


def test_an_error_that_is_remembered_does_not_grow() -> None:
    registry = Answers({})
    for _ in range(50):
        with pytest.raises(RegistryError) as refused:
            registry.schema(7)
    assert registry.asked == ["GET /schemas/ids/7"]
    depth, trace = 0, refused.value.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    assert depth < 10


def test_what_is_kept_is_bounded_by_its_size() -> None:
    long = "x" * 1_000_000
    answers = {
        f"/schemas/ids/{number}": {"schema": f'{{"type": "string", "doc": "{long}"}}'}
        for number in range(40)
    }
    registry = Answers(answers)
    for number in range(40):
        registry.schema(number)
    registry.schema(39)
    assert len(registry.asked) == 40
    registry.schema(0)
    assert len(registry.asked) == 41


def test_the_latest_version_is_deleted_by_its_number() -> None:
    version = {"subject": "s", "version": 3, "id": 1, "schema": '"int"'}
    registry = Answers({"/subjects/s/versions/latest": version, "/subjects/s/versions/3": 3})
    assert RegistryAdmin(registry).delete_version("s", "latest") == 3
    assert registry.asked[-1] == "DELETE /subjects/s/versions/3"
