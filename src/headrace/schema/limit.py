"""How large a schema may be: far above what people write, and low enough for any bomb."""

from collections.abc import Mapping
from typing import Final

from headrace.schema.error import InvalidSchema

# A record of `_schemas` is at most 1 MB by the topic's default, so more could not be stored.
MAX_TEXT_CHARACTERS: Final = 1024 * 1024
# Of a schema with everything that it refers to.
MAX_TOTAL_CHARACTERS: Final = 8 * 1024 * 1024
# Jackson's default is 1,000 levels. Code that walks a tree recurses, Python's limit is 1,000 calls.
MAX_DEPTH: Final = 200
# Comparing two schemas stops after this many pairs; Confluent's would take minutes there.
MAX_COMPARISONS: Final = 200_000
# A verdict names at most this many reasons per pair of types.
MAX_REASONS: Final = 100


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
