"""One reason why two schemas do not fit together."""

from dataclasses import dataclass

from headrace.schema.limit import MAX_SHOWN_CHARACTERS


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

    def __post_init__(self) -> None:
        # A name may be a megabyte long, and a verdict has many reasons.
        object.__setattr__(self, "path", _shortened(self.path, MAX_SHOWN_CHARACTERS))
        object.__setattr__(self, "message", _shortened(self.message, 3 * MAX_SHOWN_CHARACTERS))

    def __str__(self) -> str:
        return (
            f"{{errorType:'{self.type}', description:'{self.message}',"
            f" additionalInfo:'{self.path}'}}"
        )


def _shortened(text: str, most: int) -> str:
    """Return a text with its middle left out: the end says what to do.

    >>> _shortened("abcdefghij", 6)
    'abc...hij'
    """
    return text if len(text) <= most else f"{text[: most // 2]}...{text[-(most // 2) :]}"
