"""How large a schema may be: far above what people write, and low enough for any bomb."""

from collections.abc import Mapping
from typing import Final

from headrace.schema.error import InvalidSchema

# A record of `_schemas` is at most 1 MB by the topic's default, so more could not be stored.
MAX_TEXT_CHARACTERS: Final = 1024 * 1024
# Of a schema with everything that it refers to.
MAX_TOTAL_CHARACTERS: Final = 4 * 1024 * 1024
# Jackson's default is 1,000 levels. Code that walks a tree recurses, Python's limit is 1,000 calls.
MAX_DEPTH: Final = 200
# Comparing two schemas stops after this many steps; Confluent's would take minutes there.
MAX_COMPARISONS: Final = 200_000
# Pairs of a default value and a type that it is tried on.
MAX_DEFAULT_STEPS: Final = 200_000
# Names that are written in full: a namespace is written once and belongs to each name inside, so
# a megabyte of text could stand for gigabytes.
MAX_NAME_CHARACTERS: Final = 4 * 1024 * 1024
# A verdict names at most this many reasons per pair of types.
MAX_REASONS: Final = 100
# A reason shows this much of a name that a schema's writer has chosen.
MAX_SHOWN_CHARACTERS: Final = 300


class WorkLimit:
    """Counts work down, and refuses a schema that needs more than is allowed.

    Steps are counted, not seconds: what a schema is refused for must not depend on how busy the
    machine is.
    """

    def __init__(self, steps: int, sentence: str) -> None:
        self._left = steps
        self._sentence = sentence
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Take steps off what is left.

        Raises:
            InvalidSchema: fewer are left.
        """
        self.must_allow(steps)
        self._left -= steps
        self.spent += steps

    def must_allow(self, steps: int) -> None:
        """Refuse work that is more than what is left, before it begins.

        Raises:
            InvalidSchema: fewer steps are left.
        """
        if steps > self._left:
            raise InvalidSchema(self._sentence)


def comparison_limit() -> WorkLimit:
    """Return the limit on comparing a schema with another one."""
    return WorkLimit(MAX_COMPARISONS, "the schemas have too many parts to be compared; split them")


def name_limit(times: int = 1) -> WorkLimit:
    """Return the limit on the names of one schema and its references, in characters.

    Args:
        times: how often a name is looked for, more or less.
    """
    return WorkLimit(
        times * MAX_NAME_CHARACTERS,
        "the names of the schema, each with the namespace it is in, are too long together;"
        " shorten the namespace, or split the schema into references",
    )


def check_size(text: str, resolved: Mapping[str, str]) -> None:
    """Raise InvalidSchema if the text alone or with its references is past the limits."""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidSchema(
            f"the schema has {len(text)} characters, at most {MAX_TEXT_CHARACTERS} are allowed;"
            " split it into references"
        )
    total = len(text) + sum(map(len, resolved.values()))
    if total > MAX_TOTAL_CHARACTERS:
        raise InvalidSchema(
            f"the schema and its references have {total} characters together,"
            f" at most {MAX_TOTAL_CHARACTERS} are allowed"
        )
