"""The head loop: every whole batch of a buffer becomes one row of a table of int64.

The table is what the other kernels work by, so its columns are named here. `scan_heads` fills those
up to SKIP; INFLATED, START, END and BUFFER say where a batch's records lie, and are changed by the
caller for a compressed batch; ROWS is `read_rows`'s answer.
"""

from headrace.records.kernel.memory import (
    Bytes,
    Int64s,
    address,
    int16_at,
    int32_at,
    int64,
    int64_at,
    kernel,
    load8,
)

POSITION = 0
SIZE = 1
BASE_OFFSET = 2
LEADER_EPOCH = 3
CRC = 4
ATTRIBUTES = 5
LAST_DELTA = 6
BASE_TIMESTAMP = 7
MAX_TIMESTAMP = 8
PRODUCER_ID = 9
PRODUCER_EPOCH = 10
BASE_SEQUENCE = 11
COUNT = 12
SKIP = 13  # not 0: no record of this batch is read (one of SKIP_*)
INFLATED = 14  # 1: the records lie in the arena, 0: in the scanned bytes
START = 15
END = 16
BUFFER = 17  # the number of the view column's buffer that these bytes are
ROWS = 18  # how many of its records fell into the range of offsets
TABLE_COLUMNS = 19

SKIP_RANGE = 1
SKIP_CONTROL = 2
SKIP_ABORTED = 3

# The slots of `result`.
BATCHES = 0
CONSUMED = 1  # the position behind the last batch in the table
STATE = 2
SEEN_ATTRIBUTES = 3  # of all batches that are not out of range, or'ed together
SELECTED_COUNT = 4  # records in the batches that are not skipped
SELECTED_BYTES = 5  # and the bytes of those, as they lie there
RESULT_SLOTS = 6

# What STATE says.
DONE = 0
TABLE_FULL = 1
PAST_END = 2  # stopped before a batch at or past `past_offset`
BAD_HEAD = 3  # the head at CONSUMED cannot be true: let `Batch.validate` say why

# Repeated from records/batch.py: numba's cache does not see imported constants (`memory`, rule 3).
_HEADER_BYTES = 61
_LOG_OVERHEAD = 12
_PREFIX_BYTES = 17
_MIN_RECORD_BYTES = 7
_MAGIC = 2
_LAST_CODEC = 4
_CONTROL_BIT = 0x20


@kernel
def scan_heads(
    data: Bytes, first_offset: int, past_offset: int, table: Int64s, result: Int64s
) -> None:
    """Add the batches from `result[CONSUMED]` on to `table`, from row `result[BATCHES]` on.

    Stops before a cut-off last batch. A batch that ends before `first_offset`, and a control batch,
    gets a row but is marked to be skipped.
    """
    start = address(data)
    size = data.shape[0]
    position = result[CONSUMED]
    row = result[BATCHES]
    state = DONE
    while size - position >= _PREFIX_BYTES:
        at = start + position
        length = int32_at(at + 8)
        if load8(at + 16) != _MAGIC or length < _HEADER_BYTES - _LOG_OVERHEAD:
            state = BAD_HEAD
            break
        end = position + _LOG_OVERHEAD + length
        if end > size:
            break
        base_offset = int64_at(at)
        if base_offset >= past_offset:
            state = PAST_END
            break
        if row == table.shape[0]:
            state = TABLE_FULL
            break
        attributes = int16_at(at + 21)
        last_delta = int32_at(at + 23)
        count = int32_at(at + 57)
        body = end - position - _HEADER_BYTES
        codec = attributes & 7
        if (
            codec > _LAST_CODEC
            or last_delta < 0
            or count < 0
            or count > last_delta + 1
            or base_offset > int64(0x7FFFFFFFFFFFFFFF) - last_delta - 1
            or (codec == 0 and count > body // _MIN_RECORD_BYTES)
        ):
            state = BAD_HEAD
            break
        skip = 0
        if base_offset + last_delta < first_offset:
            skip = SKIP_RANGE
        else:
            result[SEEN_ATTRIBUTES] |= attributes
            if attributes & _CONTROL_BIT:
                skip = SKIP_CONTROL
            else:
                result[SELECTED_COUNT] += count
                result[SELECTED_BYTES] += body
        table[row, POSITION] = position
        table[row, SIZE] = end - position
        table[row, BASE_OFFSET] = base_offset
        table[row, LEADER_EPOCH] = int32_at(at + 12)
        table[row, CRC] = int32_at(at + 17) & 0xFFFFFFFF
        table[row, ATTRIBUTES] = attributes
        table[row, LAST_DELTA] = last_delta
        table[row, BASE_TIMESTAMP] = int64_at(at + 27)
        table[row, MAX_TIMESTAMP] = int64_at(at + 35)
        table[row, PRODUCER_ID] = int64_at(at + 43)
        table[row, PRODUCER_EPOCH] = int16_at(at + 51)
        table[row, BASE_SEQUENCE] = int32_at(at + 53)
        table[row, COUNT] = count
        table[row, SKIP] = skip
        table[row, INFLATED] = 0
        table[row, START] = position + _HEADER_BYTES
        table[row, END] = end
        table[row, BUFFER] = 0
        table[row, ROWS] = 0
        row += 1
        position = end
    result[BATCHES] = row
    result[CONSUMED] = position
    result[STATE] = state
