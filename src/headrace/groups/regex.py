"""Regular expressions of KIP-848 subscriptions, matched in linear time.

The expression comes from a client and is matched on the broker's event loop, so an engine that
backtracks (Python's `re`) would let one subscription stop the broker. Kafka promises RE2's syntax;
Arrow carries RE2, and matches a whole column of names in one call.
"""

from collections.abc import Iterable

from headrace.groups.error import GroupError, Refusal

# A subscription is persisted as a record's key; Kafka's string there has an int16 length.
_MAX_LENGTH = 2**15 - 1


def load_engine() -> None:
    """Import the engine, which takes a fifth of a second: call it in a thread beforehand."""
    import pyarrow.compute  # noqa: F401


def matching_topics(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that match `regex` from beginning to end, sorted.

    Raises:
        Refusal: INVALID_REGULAR_EXPRESSION, when RE2 cannot compile it.
    """
    # Imported here: only groups with a regex pay for it.
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(regex.encode()) > _MAX_LENGTH:
        raise Refusal(
            GroupError.INVALID_REGULAR_EXPRESSION,
            f"a topic regex has at most {_MAX_LENGTH} bytes, this has {len(regex.encode())}",
        )
    candidates = pa.array(sorted(names), type=pa.string())
    try:
        # Alone first: "a)(b" is no expression, and must not become one inside the brackets below.
        pc.match_substring_regex(pa.array([""], type=pa.string()), regex)
        matches = pc.match_substring_regex(candidates, rf"\A(?:{regex})\z")
    except pa.ArrowInvalid as error:
        raise Refusal(
            GroupError.INVALID_REGULAR_EXPRESSION,
            f"the topic regex {regex!r} is not RE2 syntax: {error}",
        ) from None
    return tuple(candidates.filter(matches).to_pylist())
