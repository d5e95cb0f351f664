"""The loop that reads Avro values into the entries of columns.

Theory of operation. Every list or map begins a level: all columns between two lists have their
entries at the same position, and `levels` holds that position for each level. Level 0 counts rows.
Entries come in as zeros, and so does every state: what no operation writes is null, or an empty
string or list. So a null record costs nothing for its fields.

Rule 1: every read is checked against the value's end, and a length is compared with the bytes that
are left before it is used.
Rule 2: the items of one value are at most its bytes and `spare_items`. The caller has made room for
that many entries in each level, so no write is checked.
Rule 3: a value that cannot be read leaves no trace: its entries are zero again, and the levels are
where they were. `problems` then says why.
Rule 4: a string's entry is where it lies in `data` and how long it is; it is copied later, when the
sizes of all are known.
"""

import numpy as np

from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
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
from headrace.records.kernel.varint import BAD, read_varint
from headrace.serde.avro.kernel.decimal import read_decimal
from headrace.serde.avro.kernel.op import (
    BAD_BOOLEAN,
    BAD_COUNT,
    BAD_DECIMAL,
    BAD_INDEX,
    BAD_INT,
    BAD_LENGTH,
    BAD_SYMBOL,
    BAD_TEXT,
    BAD_TIME,
    BLOCK,
    BOOLEAN,
    BRANCH,
    BYTES,
    CUT_OFF,
    DATA,
    DECIMAL,
    DEPTH,
    DOUBLE,
    END,
    ENUM,
    FAIL,
    FIXED,
    FIXED_DECIMAL,
    FLOAT,
    INT,
    INT_AS_DOUBLE,
    INT_AS_FLOAT,
    INT_AS_LONG,
    ITEM_END,
    JUMP,
    LAST_VARINT,
    LEVEL,
    LIST,
    LONG,
    LONG_AS_DOUBLE,
    LONG_AS_FLOAT,
    NULLABLE,
    OK,
    OP_BYTES,
    SET_VALID,
    SKIP_BOOLEAN,
    SKIP_BYTES,
    SKIP_ENUM,
    SKIP_FIXED,
    SKIP_INT,
    STRING,
    TRAILING,
    UNRESOLVED,
    VALID,
    A,
    B,
)
from headrace.serde.avro.kernel.text import is_utf8

# How a row lies in the table that bad rows are cleared by.
COLUMN_DATA = 0
COLUMN_WIDTH = 1
COLUMN_VALID = 2
COLUMN_LEVEL = 3
COLUMN_WORDS = 4

# How a list lies on the stack.
ITEMS_LEFT = 0
FIRST_ITEM = 1
STACK_WORDS = 2

_INT_END = 1 << 31
_HALF = np.uint64(32)


@part
def word(at: int, number: int) -> int:
    """Return one of the numbers at an address."""
    return int64(load64(at + 8 * number))


@part
def is_outside(op: int, value: int) -> bool:
    """Return whether an operation has a bound that a number is outside of."""
    bound = word(op, B)
    return bound != 0 and (value < 0 or value >= bound)


@part
def put_place(to: int, start: int, size: int) -> None:
    """Write where a string lies and how long it is."""
    store64(to, np.uint64(start) | np.uint64(size) << _HALF)


@part
def clear(columns: Int64s, saved: Int64s, levels: Int64s) -> None:
    """Write zeros over the entries that a value has written to, and put the levels back."""
    for number in range(columns.shape[0]):
        level = columns[number, COLUMN_LEVEL]
        width = columns[number, COLUMN_WIDTH]
        for entry in range(saved[level], levels[level] + 1):
            to = columns[number, COLUMN_DATA] + entry * width
            for place in range(width):
                store8(to + place, 0)
            if columns[number, COLUMN_VALID]:
                store8(columns[number, COLUMN_VALID] + entry, 0)
    for level in range(levels.shape[0]):
        levels[level] = saved[level]


@kernel
def read_values(
    data: Bytes,
    starts: Int64s,
    ends: Int64s,
    first_row: int,
    past_row: int,
    program: Int64s,
    tables: Int64s,
    columns: Int64s,
    levels: Int64s,
    saved: Int64s,
    stack: Int64s,
    spare_items: int,
    problems: Bytes,
) -> None:
    """Read the values from `first_row` up to `past_row`; one whose start is negative is null."""
    base = address(data)
    program_at = address(program)
    tables_at = address(tables)
    levels_at = address(levels)
    for row in range(first_row, past_row):
        if starts[row] < 0:
            continue
        at = base + starts[row]
        end = base + ends[row]
        levels[0] = row
        for level in range(levels.shape[0]):
            saved[level] = levels[level]
        items_left = end - at + spare_items
        problem = OK if at <= end else CUT_OFF
        op = program_at
        while problem == OK:
            code = word(op, 0)
            entry = int64(load64(levels_at + 8 * word(op, LEVEL)))
            to = word(op, DATA)
            next_op = op + OP_BYTES
            if code <= LAST_VARINT:
                value, at = read_varint(at, end)
                if at == BAD:
                    problem = CUT_OFF
                elif code == NULLABLE:
                    if value == word(op, A):
                        next_op = program_at + word(op, B)
                    elif value == 1 - word(op, A):
                        store8(word(op, VALID) + entry, 1)
                    else:
                        problem = BAD_INDEX
                elif code == BRANCH:
                    if value < 0 or value >= word(op, B):
                        problem = BAD_INDEX
                    else:
                        next_op = program_at + word(tables_at, word(op, A) + value)
                elif code <= INT_AS_DOUBLE or code == SKIP_INT:
                    if value < -_INT_END or value >= _INT_END:
                        problem = BAD_INT
                    elif is_outside(op, value):
                        problem = BAD_TIME
                    elif code == INT:
                        store32(to + 4 * entry, np.int32(value))
                    elif code == INT_AS_LONG:
                        store64(to + 8 * entry, np.uint64(value))
                    elif code == INT_AS_FLOAT:
                        store32(to + 4 * entry, np.float32(value).view(np.int32))
                    elif code == INT_AS_DOUBLE:
                        store64(to + 8 * entry, np.float64(value).view(np.uint64))
                elif code == LONG:
                    if is_outside(op, value):
                        problem = BAD_TIME
                    else:
                        store64(to + 8 * entry, np.uint64(value))
                elif code == LONG_AS_FLOAT:
                    store32(to + 4 * entry, np.float32(value).view(np.int32))
                elif code == LONG_AS_DOUBLE:
                    store64(to + 8 * entry, np.float64(value).view(np.uint64))
                elif code == ENUM:
                    if value < 0 or value >= word(op, B):
                        problem = BAD_SYMBOL
                    else:
                        symbol = word(tables_at, word(op, A) + value)
                        if symbol < 0:
                            problem = BAD_SYMBOL
                        else:
                            store32(to + 4 * entry, np.int32(symbol))
                elif code == SKIP_ENUM:
                    if value < 0 or value >= word(op, B):
                        problem = BAD_SYMBOL
                elif code <= DECIMAL or code == SKIP_BYTES:
                    if value < 0 or value > end - at:
                        problem = BAD_LENGTH
                    elif code == STRING:
                        if is_utf8(at, at + value):
                            put_place(to + 8 * entry, at - base, value)
                        else:
                            problem = BAD_TEXT
                    elif code == BYTES:
                        put_place(to + 8 * entry, at - base, value)
                    elif code == DECIMAL:
                        words = word(op, B)
                        limit = tables_at + 8 * word(op, A)
                        if not read_decimal(at, value, to + 8 * words * entry, words, limit):
                            problem = BAD_DECIMAL
                    at += value
                elif code == BLOCK:
                    depth = word(op, DEPTH)
                    if value == 0:
                        if to:
                            items = levels[word(op, B)] - stack[depth, FIRST_ITEM]
                            store32(to + 4 * entry, np.int32(items))
                    else:
                        if value < 0:
                            value = -value
                            size, at = read_varint(at, end)
                            if at == BAD:
                                problem = CUT_OFF
                        # The smallest int64 has no positive: it stays below zero.
                        if value < 0 or value > items_left:
                            problem = BAD_COUNT
                        items_left -= value
                        stack[depth, ITEMS_LEFT] = value - 1
                        next_op = program_at + word(op, A)
            elif code == END:
                if at != end:
                    problem = TRAILING
                break
            elif code == FAIL:
                problem = UNRESOLVED
            elif code == JUMP:
                next_op = program_at + word(op, A)
            elif code == SET_VALID:
                store8(word(op, VALID) + entry, 1)
            elif code == BOOLEAN or code == SKIP_BOOLEAN:  # noqa: SIM109 - no tuple
                if at >= end:
                    problem = CUT_OFF
                elif load8(at) > 1:
                    problem = BAD_BOOLEAN
                else:
                    if to:
                        store8(to + entry, int64(load8(at)))
                    at += 1
            elif code <= DOUBLE:
                size = 8 if code == DOUBLE else 4
                if end - at < size:
                    problem = CUT_OFF
                elif code == FLOAT:
                    store32(to + 4 * entry, load32(at))
                elif code == DOUBLE:
                    store64(to + 8 * entry, load64(at))
                else:
                    number = np.int32(load32(at)).view(np.float32)
                    store64(to + 8 * entry, np.float64(number).view(np.uint64))
                at += size
            elif code == FIXED or code == SKIP_FIXED:  # noqa: SIM109
                size = word(op, A)
                if end - at < size:
                    problem = CUT_OFF
                elif to:
                    put_place(to + 8 * entry, at - base, size)
                at += size
            elif code == FIXED_DECIMAL:
                size = word(op, DEPTH)
                words = word(op, B)
                limit = tables_at + 8 * word(op, A)
                if end - at < size:
                    problem = CUT_OFF
                elif not read_decimal(at, size, to + 8 * words * entry, words, limit):
                    problem = BAD_DECIMAL
                at += size
            elif code == LIST:
                stack[word(op, DEPTH), FIRST_ITEM] = levels[word(op, B)]
                next_op = program_at + word(op, A)
            elif code == ITEM_END:
                levels[word(op, B)] += 1
                depth = word(op, DEPTH)
                if stack[depth, ITEMS_LEFT] > 0:
                    stack[depth, ITEMS_LEFT] -= 1
                    next_op = program_at + word(op, A)
            op = next_op
        if problem != OK:
            clear(columns, saved, levels)
            problems[row] = problem
