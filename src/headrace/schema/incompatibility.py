"""One reason why two schemas do not fit together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Roles:
    """What a message calls the reader's and the writer's schema: new and earlier, or reversed."""

    reader: str
    writer: str


@dataclass(frozen=True, slots=True)
class Incompatibility:
    """A difference that breaks a reader.

    `type` has Confluent's name (READER_FIELD_MISSING_DEFAULT_VALUE, TYPE_CHANGED, ...), `path` says
    where in the schema, `message` what differs and what to change. `earlier` is the index of the
    earlier schema in the list that was checked.
    """

    type: str
    path: str
    message: str
    earlier: int = 0

    def __str__(self) -> str:
        return (
            f"{{errorType:'{self.type}', description:'{self.message}',"
            f" additionalInfo:'{self.path}'}}"
        )
