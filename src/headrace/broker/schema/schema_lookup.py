"""What the broker needs of a schema registry."""

from typing import NamedTuple, Protocol


class SchemaLookup(Protocol):
    """Answers whether a registry has a schema. The broker calls it in threads of its own."""

    def knows(self, topic: str, head: bytes, *, key: bool, strategy: str) -> bool:
        """Return whether the schema that a head names is under the subject of a topic.

        Args:
            head: 00 and an id, or 01 and a GUID.
            strategy: how the subject is named: one of `SUBJECT_NAME_STRATEGIES`.

        Raises:
            ServiceUnavailable: the registry does not answer, whatever it is asked.
            HeadraceError: it did not answer this question.
        """

    def close(self) -> None:
        """Give connections back."""


class SchemaQuestion(NamedTuple):
    """What a lookup is asked: the arguments of `SchemaLookup.knows`."""

    topic: str
    head: bytes
    key: bool
    strategy: str

    @property
    def part(self) -> str:
        return "key" if self.key else "value"

    @property
    def schema(self) -> str:
        """The schema, as an error names it."""
        if self.head[0]:
            return f"GUID {self.head[1:].hex()}"
        return f"id {int.from_bytes(self.head[1:], 'big')}"
