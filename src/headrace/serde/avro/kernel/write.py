"""The loop that writes the entries of columns as Avro values.

A program of operations runs once for each row, as in `read`; levels and positions are the same. An
array or map is written as one block.

Rule 1: the caller has made room for all values by the sizes of the columns. Room is checked all the
same: the offsets of a list may lie.
Rule 2: a state is 0 for null, 1 for a value, 2 for one that did not fit its type. Only a union with
null takes a null.
Rule 3: of a row that cannot be written nothing is left, and `problems` says why.
"""

import numpy as np

from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    copy,
    int64,
    kernel,
    load8,
    load32,
    load64,
    part,
    store8,
    store32,
    store64,
)
from headrace.records.kernel.varint import write_varint
from headrace.serde.avro.kernel.decimal import decimal_bytes, is_within
from headrace.serde.avro.kernel.op import (
    BAD_DECIMAL,
    BAD_INT,
    BAD_SIZE,
    BAD_SYMBOL,
    BAD_UNION,
    BOOLEAN,
    BYTES,
    COLUMN,
    DATA,
    DECIMAL,
    DEPTH,
    DOUBLE,
    END,
    ENUM,
    FIXED,
    FIXED_DECIMAL,
    FLOAT,
    FULL,
    INT,
    ITEM_END,
    JUMP,
    LEVEL,
    LIST,
    LONG,
    MEMBER,
    NULL_OR_VALUE,
    NULL_VALUE,
    OK,
    OP_BYTES,
    UNFIT,
    UNION_INDEX,
    VALID,
    A,
    B,
)

NULL_STATE = 0
VALUE_STATE = 1
UNFIT_STATE = 2

# How a member lies in the tables, behind the target behind the union.
MEMBER_COLUMN = 0
MEMBER_INDEX = 1
MEMBER_TARGET = 2
MEMBER_WORDS = 3

_INT_END = 1 << 31
_WORDS = 4
_VARINT_BYTES = 10
# What an operation writes at most besides the bytes of a string, a fixed or a decimal.
_ROOM_BYTES = 2 * _VARINT_BYTES + 8


@part
def word(at: int, number: int) -> int:
    """Return one of the numbers at an address."""
    return int64(load64(at + 8 * number))


@part
def write_decimal(to: int, at: int, size: int) -> None:
    """Write the number at `at` as big-endian bytes, the sign in front."""
    sign = np.uint8(0xFF) if load8(at + 8 * _WORDS - 1) >= 0x80 else np.uint8(0)
    for place in range(size):
        byte = load8(at + place) if place < 8 * _WORDS else sign
        store8(to + size - 1 - place, int64(byte))


@kernel
def write_values(
    rows: int,
    skipped: Bytes,
    prefix: Bytes,
    program: Int64s,
    tables: Int64s,
    states: Int64s,
    contents: Int64s,
    counts: Int64s,
    levels: Int64s,
    stack: Int64s,
    out: Bytes,
    offsets: Int64s,
    problems: Bytes,
) -> None:
    """Write all rows but the `skipped` ones, each behind the prefix.

    `states` and `contents` have an address for each column, of its states and of its strings.
    `counts` says how many entries each level has.
    """
    program_at = address(program)
    tables_at = address(tables)
    begin = address(out)
    at = begin
    out_end = begin + out.shape[0]
    prefix_size = prefix.shape[0]
    offsets[0] = 0
    for row in range(rows):
        offsets[row + 1] = at - begin
        if skipped[row]:
            continue
        row_start = at
        levels[0] = row
        problem = OK
        if out_end - at < prefix_size:
            problem = FULL
        else:
            copy(at, address(prefix), prefix_size)
            at += prefix_size
        op = program_at
        while problem == OK:
            code = word(op, 0)
            if code == END:
                break
            if out_end - at < _ROOM_BYTES:
                problem = FULL
                break
            entry = levels[word(op, LEVEL)]
            data = word(op, DATA)
            next_op = op + OP_BYTES
            state = VALUE_STATE
            if word(op, VALID):
                state = int64(load8(word(op, VALID) + entry))
            if state == UNFIT_STATE:
                problem = UNFIT
                break
            if state == NULL_STATE and code != NULL_OR_VALUE and code != MEMBER:
                problem = NULL_VALUE
                break
            if code == NULL_OR_VALUE:
                if state == NULL_STATE:
                    at = write_varint(at, word(op, A))
                    next_op = program_at + word(op, B)
                else:
                    at = write_varint(at, 1 - word(op, A))
            elif code == MEMBER:
                table = tables_at + 8 * word(op, A)
                chosen = int64(-1)
                if state != NULL_STATE:
                    for number in range(word(op, B)):
                        column = word(table, 1 + MEMBER_WORDS * number + MEMBER_COLUMN)
                        if states[column] == 0 or load8(states[column] + entry) != NULL_STATE:
                            chosen = number if chosen == -1 else -2
                if chosen >= 0:
                    member = table + 8 * (1 + MEMBER_WORDS * chosen)
                    at = write_varint(at, word(member, MEMBER_INDEX))
                    next_op = program_at + word(member, MEMBER_TARGET)
                elif chosen == -1 and word(op, DEPTH) >= 0:
                    at = write_varint(at, word(op, DEPTH))
                    next_op = program_at + word(table, 0)
                else:
                    problem = BAD_UNION
            elif code == UNION_INDEX:
                at = write_varint(at, word(op, A))
            elif code == JUMP:
                next_op = program_at + word(op, A)
            elif code == INT or code == LONG or code == ENUM:  # noqa: SIM109 - no tuple
                value = int64(load64(data + 8 * entry))
                if code == INT and (value < -_INT_END or value >= _INT_END):
                    problem = BAD_INT
                elif code == ENUM and value < 0:
                    problem = BAD_SYMBOL
                else:
                    at = write_varint(at, value)
            elif code == BOOLEAN:
                store8(at, int64(load8(data + entry)))
                at += 1
            elif code == FLOAT:
                store32(at, load32(data + 4 * entry))
                at += 4
            elif code == DOUBLE:
                store64(at, load64(data + 8 * entry))
                at += 8
            elif code == BYTES or code == FIXED:  # noqa: SIM109 - no tuple
                start = int64(load64(data + 8 * entry))
                size = int64(load64(data + 8 * entry + 8)) - start
                if code == FIXED and size != word(op, A):
                    problem = BAD_SIZE
                elif out_end - at < size + _ROOM_BYTES:
                    problem = FULL
                else:
                    if code == BYTES:
                        at = write_varint(at, size)
                    copy(at, contents[word(op, COLUMN)] + start, size)
                    at += size
            elif code == DECIMAL or code == FIXED_DECIMAL:  # noqa: SIM109 - no tuple
                number_at = data + 8 * _WORDS * entry
                size = word(op, DEPTH)
                if not is_within(number_at, _WORDS, tables_at + 8 * word(op, A)):
                    problem = BAD_DECIMAL
                elif out_end - at < max(size, 8 * _WORDS) + _ROOM_BYTES:
                    problem = FULL
                else:
                    if code == DECIMAL:
                        size = decimal_bytes(number_at, _WORDS)
                        at = write_varint(at, size)
                    write_decimal(at, number_at, size)
                    at += size
            elif code == LIST:
                first = int64(load64(data + 8 * entry))
                past = int64(load64(data + 8 * entry + 8))
                level = word(op, B)
                if first < 0 or past < first or past > counts[level]:
                    problem = FULL
                elif first == past:
                    store8(at, 0)
                    at += 1
                    next_op = program_at + word(op, A)
                else:
                    at = write_varint(at, past - first)
                    levels[level] = first
                    stack[word(op, DEPTH)] = past
            elif code == ITEM_END:
                level = word(op, B)
                levels[level] += 1
                if levels[level] < stack[word(op, DEPTH)]:
                    next_op = program_at + word(op, A)
                else:
                    store8(at, 0)
                    at += 1
            op = next_op
        if problem != OK:
            at = row_start
            problems[row] = problem
        offsets[row + 1] = at - begin
