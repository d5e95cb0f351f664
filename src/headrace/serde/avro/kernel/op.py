"""The operations of a program that reads or writes one datum, and how they lie in memory.

A schema is compiled into a table of int64, one row of eight words, a cache line, for each
operation. A kernel starts at the first row for every value and ends at `END`.

What the words `A` and `B` mean is said beside each operation. A target is the position of another
operation in bytes from the program's start.
"""

# What each of the eight numbers is.
CODE = 0
DATA = 1  # the address of the column's entries; set when the buffers are
VALID = 2  # the address of the column's states, one byte per entry, or 0
LEVEL = 3  # which position counts the column's entries
A = 4
B = 5
DEPTH = 6  # of lists: their place on the stack
COLUMN = 7  # the number of the column, or -1: read, but not kept
WORDS = 8
WORD_BYTES = 8
OP_BYTES = WORDS * WORD_BYTES

# Operations that begin with a varint.
NULLABLE = 0  # A: the index of null; B: the target behind the value
BRANCH = 1  # A: the first of its targets in the tables; B: how many
INT = 2  # of this and other whole numbers B: what it must be below, from 0 on; 0 for any
INT_AS_LONG = 3
INT_AS_FLOAT = 4
INT_AS_DOUBLE = 5
LONG = 6
LONG_AS_FLOAT = 7
LONG_AS_DOUBLE = 8
ENUM = 9  # A: the first of the reader's numbers in the tables, -1 for none; B: how many
STRING = 10
BYTES = 11
DECIMAL = 12  # A: the smallest number too large, in the tables; B: its size in 64-bit words
SKIP_INT = 13
SKIP_LONG = 14
SKIP_ENUM = 15  # B: how many symbols
SKIP_BYTES = 16
BLOCK = 17  # A: the target of the first item's first operation; B: the level of items
LAST_VARINT = BLOCK

# Others.
END = 18
FAIL = 19  # a branch that the reader has no type for
JUMP = 20  # A: the target
SET_VALID = 21
BOOLEAN = 22
FLOAT = 23
FLOAT_AS_DOUBLE = 24
DOUBLE = 25
FIXED = 26  # A: its bytes
FIXED_DECIMAL = 27  # A, B: as DECIMAL; DEPTH: its bytes
SKIP_BOOLEAN = 28
SKIP_FIXED = 29  # A: its bytes
LIST = 30  # A: the target of its BLOCK; B: the level of items
ITEM_END = 31  # A: the target of the first item's first operation; B: the level of items

# Operations that only a program that writes has; it shares the others where they mean the same.
UNION_INDEX = 32  # A: the number to write
MEMBER = 33  # A: its members in the tables; B: how many; DEPTH: the index of null, or -1
NULL_OR_VALUE = 34  # A: the index of null; B: the target behind the value
CHECK = 35  # only that the entry is not null

# Why a value cannot be read or written.
OK = 0
CUT_OFF = 1
BAD_INDEX = 2
BAD_INT = 3
BAD_BOOLEAN = 4
BAD_LENGTH = 5
BAD_TEXT = 6
BAD_SYMBOL = 7
BAD_COUNT = 8
BAD_DECIMAL = 9
TRAILING = 10
UNRESOLVED = 11
NULL_VALUE = 12
UNFIT = 13
BAD_UNION = 14
BAD_SIZE = 15
FULL = 16
BAD_TIME = 17

PROBLEMS = {
    CUT_OFF: "it ends inside the datum",
    BAD_INDEX: "the index of a union names no branch",
    BAD_INT: "an int needs more than 32 bits",
    BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    BAD_LENGTH: "a length reaches past the end of the value",
    BAD_TEXT: "a string is not UTF-8",
    BAD_SYMBOL: "an enum has no such symbol",
    BAD_COUNT: "an array or map counts more items than the value has bytes for",
    BAD_DECIMAL: "a decimal has more digits than its precision",
    TRAILING: "bytes follow the datum",
    UNRESOLVED: "a union holds a type that the reader's schema does not have",
    NULL_VALUE: "a field that cannot be null is null",
    UNFIT: "a value does not fit the type of its field",
    BAD_UNION: "a union needs one member that is not null",
    BAD_SIZE: "a fixed has another number of bytes",
    FULL: "the lists of the column overlap",
    BAD_TIME: "a time of day is not within a day",
}
"""Each as the end of a sentence: the value cannot be read (or written): ..."""
