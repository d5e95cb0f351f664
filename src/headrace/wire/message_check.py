"""Checks a message's shape before kio's reader sees it.

kio's native reader reserves memory for as many array items as the peer claims before it looks for
them: four bytes that claim 2 billion topics end the process, not just the request. So each message
is first walked by a checker that is compiled from its schema.

Rule 1: a count is compared with the bytes that are left, by the least an item can take.
Rule 2: a null where the message allows none is refused here, so that a handler never meets one.
Rule 3: items and tagged fields are counted against one budget per message, because a tiny item on
the wire is a large object in memory: 8 MiB of empty names would become 300 MB.
Rule 4: what passes here, kio reads to the same last byte.
Rule 5: tagged fields that this version does not know are cut out, because kio refuses them and the
protocol says to skip them (KIP-482): a newer peer may send them at any version.
Rule 6: values that are fine in Kafka and cannot be said in kio's types are brought to the nearest
that can: an error code of a newer Kafka to -1 (unknown), "no time" as a time to 0, a retention of
Java's largest number to kio's 292,000 years.

Fixed-size neighbours are skipped in one step and arrays of fixed-size items in one multiplication,
so that a walk costs one to three microseconds for an ordinary request.
"""

from collections.abc import Callable, Mapping
from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from headrace.wire.error_code import ErrorCode
from headrace.wire.primitive import INT16, INT32, Frame, Malformed, pack_uvarint, read_uvarint
from headrace.wire.schema import FIXED_BYTES, FIXED_LETTERS, Field, Schema

REQUEST_MAX_ITEMS: Final = 1 << 18
"""Items and tagged fields in one request. Kafka's largest clusters have 200,000 partitions."""

RESPONSE_MAX_ITEMS: Final = 1 << 24
"""Items in a response: we asked for it, so only its bytes bound it in practice."""


class Edit(NamedTuple):
    """Bytes to put in place of a stretch of the message."""

    start: int
    end: int
    content: bytes


class Walk:
    """One pass over a message: its bytes, how many items they may still hold, and the edits."""

    __slots__ = ("buffer", "edits", "items_left")

    def __init__(self, buffer: Frame, items_left: int) -> None:
        self.buffer = buffer
        self.items_left = items_left
        self.edits: list[Edit] = []

    def spend(self, count: int, item_bytes: int, at: int) -> None:
        if count * item_bytes > len(self.buffer) - at:
            raise Malformed(f"{count} items at byte {at} do not fit")
        self.items_left -= count
        if self.items_left < 0:
            raise Malformed("it holds too many items")


Step = Callable[[Walk, int], int]
"""Takes the position of a field and returns where the next one starts."""


def check_body(schema: Schema, buffer: Frame, at: int, max_items: int) -> tuple[Frame, int, int]:
    """Walk one message and return what kio may read: a buffer, where it starts and where it ends.

    The buffer is the one that came in unless unknown tagged fields had to be cut out.

    Raises:
        Malformed, IndexError, struct.error: it does not hold; see `primitive.reading`.
    """
    walk = Walk(buffer, max_items)
    end = _struct_step(schema)(walk, at)
    if end > len(buffer):
        raise Malformed(f"it ends at byte {end} and only {len(buffer)} are there")
    if walk.edits:
        edited = _edited(buffer, at, end, walk.edits)
        return edited, 0, len(edited)
    return buffer, at, end


def _edited(buffer: Frame, start: int, end: int, edits: list[Edit]) -> bytes:
    parts: list[Frame] = []
    for edit in edits:
        parts += (buffer[start : edit.start], edit.content)
        start = edit.end
    return b"".join((*parts, buffer[start:end]))


@cache
def _struct_step(schema: Schema) -> Step:
    steps: list[Step] = []
    skipped = 0
    for field in schema.ordinary:
        size = _fixed_size(field)
        if size is not None:
            skipped += size
            continue
        if skipped:
            steps.append(_skip(skipped))
            skipped = 0
        steps.append(_field_step(field, schema.flexible))
    if skipped:
        steps.append(_skip(skipped))
    if schema.flexible:
        steps.append(_tags_step(schema))
    if len(steps) == 1:
        return steps[0]
    return _sequence(tuple(steps))


def _sequence(steps: tuple[Step, ...]) -> Step:
    def run(walk: Walk, at: int) -> int:
        for step in steps:
            at = step(walk, at)
        return at

    return run


def _skip(size: int) -> Step:
    return lambda walk, at: at + size


def _fixed_size(field: Field) -> int | None:
    """Return the bytes of a field that can be skipped unseen, otherwise None."""
    if field.array or _is_mended(field):
        return None
    return FIXED_BYTES.get(field.kind)


def _is_mended(field: Field) -> bool:
    return field.kind in _MENDED and not field.nullable


def _mend_step(field: Field) -> Step:
    """Make a step that notes an edit of a number that kio could not take (rule 6)."""
    number = Struct(">" + FIXED_LETTERS[field.kind])
    mend = _MENDED[field.kind]

    def step(walk: Walk, at: int) -> int:
        (value,) = number.unpack_from(walk.buffer, at)
        mended = mend(value)
        end = at + number.size
        if mended != value:
            walk.edits.append(Edit(at, end, number.pack(mended)))
        return end

    return step


_KNOWN_CODES: Final = frozenset(int(code) for code in ErrorCode)
_LAST_TIME_MS: Final = 253_402_300_799_000  # the last second of the year 9999
_LONGEST_MS: Final = (2**63 - 1) // 1000  # kio counts microseconds in 64 bits

_MENDED: Final[Mapping[str, Callable[[int], int]]] = {
    "error_code": lambda code: code if code in _KNOWN_CODES else -1,
    "datetime_i64": lambda time_ms: min(max(time_ms, 0), _LAST_TIME_MS),
    "timedelta_i64": lambda span_ms: min(max(span_ms, -_LONGEST_MS), _LONGEST_MS),
}


def _least_size(schema: Schema) -> int:
    """Return the fewest bytes a structure can take."""
    least = 1 if schema.flexible else 0
    for field in schema.ordinary:
        if field.array:
            least += 1 if schema.flexible else 4
        elif field.struct is not None:
            least += 1 if field.nullable else _least_size(field.struct)
        else:
            least += _least_kind_size(field.kind, schema.flexible)
    return least


def _least_kind_size(kind: str, flexible: bool) -> int:
    if kind in FIXED_BYTES:
        return FIXED_BYTES[kind]
    if flexible:
        return 1
    return 2 if kind == "string" else 4


def _field_step(field: Field, flexible: bool) -> Step:
    if field.array:
        return _array_step(field, flexible)
    if field.struct is not None:
        step = _struct_step(field.struct)
        return _nullable_struct(step) if field.nullable else step
    return _kind_step(field, flexible)


def _kind_step(field: Field, flexible: bool) -> Step:
    if _is_mended(field):
        return _mend_step(field)
    if field.kind in FIXED_BYTES:
        return _skip(FIXED_BYTES[field.kind])
    if flexible:
        return _compact_step(field)
    return _legacy_step(field)


def _compact_step(field: Field) -> Step:
    """Make a step over a string or bytes: length + 1 as a varint, 0 for null."""
    name, nullable = field.name, field.nullable and not field.array

    def step(walk: Walk, at: int) -> int:
        length, at = read_uvarint(walk.buffer, at)
        if length:
            return at + length - 1
        if nullable:
            return at
        raise Malformed(f"{name} is null at byte {at}")

    return step


def _legacy_step(field: Field) -> Step:
    """Make a step over a string behind an int16, or bytes behind an int32; -1 for null."""
    name, nullable = field.name, field.nullable and not field.array
    head = INT16 if field.kind == "string" else INT32
    unpack, head_size = head.unpack_from, head.size

    def step(walk: Walk, at: int) -> int:
        (length,) = unpack(walk.buffer, at)
        if length >= 0:
            return int(at + head_size + length)
        if length == -1 and nullable:
            return at + head_size
        raise Malformed(f"{name} has length {length} at byte {at}")

    return step


def _array_step(field: Field, flexible: bool) -> Step:
    name, nullable = field.name, field.nullable
    if field.struct is not None:
        least = _least_size(field.struct)
        item = _struct_step(field.struct)
        fixed = not field.struct.flexible and all(
            _fixed_size(inner) is not None for inner in field.struct.ordinary
        )
    else:
        least = _least_kind_size(field.kind, flexible)
        item = _kind_step(field, flexible)
        fixed = field.kind in FIXED_BYTES

    def step(walk: Walk, at: int) -> int:
        if flexible:
            count, at = read_uvarint(walk.buffer, at)
            count -= 1
        else:
            (count,) = INT32.unpack_from(walk.buffer, at)
            at += 4
        if count <= 0:
            if count == 0 or (count == -1 and nullable):
                return at
            raise Malformed(f"{name} has {count} items at byte {at}")
        walk.spend(count, least, at)
        if fixed:
            return at + count * least
        for _ in range(count):
            at = item(walk, at)
        return at

    return step


def _nullable_struct(step: Step) -> Step:
    """Make a step over a byte that says whether a structure follows, and over that (KIP-893)."""

    def run(walk: Walk, at: int) -> int:
        marker = walk.buffer[at]
        if marker == 0xFF:
            return at + 1
        if marker == 1:
            return step(walk, at + 1)
        raise Malformed(f"a structure at byte {at} starts with {marker}, not with 1 or -1")

    return run


def _tags_step(schema: Schema) -> Step:
    known = {field.tag: _field_step(field, True) for field in schema.tagged}

    def step(walk: Walk, start: int) -> int:
        if walk.buffer[start] == 0:
            return start + 1
        count, at = read_uvarint(walk.buffer, start)
        walk.spend(count, 2, at)
        edits_outside = walk.edits
        kept: list[bytes] = []
        changed = False
        for _ in range(count):
            tag, at = read_uvarint(walk.buffer, at)
            size, at = read_uvarint(walk.buffer, at)
            content = known.get(tag)
            if content is None:
                changed = True
            else:
                walk.edits = []
                if content(walk, at) != at + size:
                    raise Malformed(f"tagged field {tag} at byte {at} does not take {size} bytes")
                changed |= bool(walk.edits)
                inner = _edited(walk.buffer, at, at + size, walk.edits)
                kept += (pack_uvarint(tag), pack_uvarint(len(inner)), inner)
            at += size
        walk.edits = edits_outside
        if changed:
            walk.edits.append(Edit(start, at, pack_uvarint(len(kept) // 3) + b"".join(kept)))
        return at

    return step
