"""UUIDs as Kafka spells them."""

from uuid import UUID

import pytest

from headrace.model.ids import parse_uuid_text, random_uuid, uuid_text

UUIDS = [
    (UUID(int=0), "AAAAAAAAAAAAAAAAAAAAAA"),
    (UUID("f47ac10b-58cc-4372-a567-0e02b2c3d479"), "9HrBC1jMQ3KlZw4CssPUeQ"),
    (UUID(int=2**128 - 1), "_____________________w"),
]


@pytest.mark.parametrize(("uuid", "text"), UUIDS)
def test_a_uuid_has_22_characters(uuid: UUID, text: str) -> None:
    assert uuid_text(uuid) == text
    assert parse_uuid_text(text) == uuid


@pytest.mark.parametrize(
    "text", ["", "short", "9HrBC1jMQ3KlZw4CssPUeQ==", "9HrBC1jMQ3KlZw4CssPUeR", "ü" * 22, "/" * 22]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUID"):
        parse_uuid_text(text)


def test_a_random_uuid_looks_like_no_option() -> None:
    assert not any(uuid_text(random_uuid()).startswith("-") for _ in range(300))
