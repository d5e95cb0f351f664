"""What the files of a segment are called, in every stage of their life. All names are Kafka's.

00000000000000000042.log            the batches, first offset 42
00000000000000000042.index          offset index      .timeindex, .txnindex   beside it
00000000000000000042.snapshot       producer state before offset 42
00000000000000000042.log.cleaned    compaction is writing it; a crash throws it away
00000000000000000042.log.swap       compaction finished it; a crash puts it in its place
00000000000000000042.log.deleted    dropped; readers may still hold it; removed later
"""

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"

# The order matters when a segment is put in place: a `.log` must never be seen without its indexes.
SEGMENT_SUFFIXES = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, LOG)

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"

_OFFSET_DIGITS = 20


def segment_file_name(base_offset: int, suffix: str, stage: str = "") -> str:
    """Return the name of one of a segment's files.

    >>> segment_file_name(42, LOG, SWAP)
    '00000000000000000042.log.swap'
    """
    return f"{base_offset:020d}{suffix}{stage}"


def parse_segment_file_name(name: str) -> tuple[int, str, str] | None:
    """Return (base offset, suffix, stage) of a segment's file; None for any other name.

    >>> parse_segment_file_name("00000000000000000042.timeindex")
    (42, '.timeindex', '')
    >>> parse_segment_file_name("leader-epoch-checkpoint") is None
    True
    """
    digits, dot, rest = name.partition(".")
    if not dot or len(digits) != _OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    suffix, dot, stage = rest.partition(".")
    suffix = "." + suffix
    if suffix not in SEGMENT_SUFFIXES and suffix != SNAPSHOT:
        return None
    stage = dot + stage
    return (int(digits), suffix, stage) if stage in ("", CLEANED, SWAP, DELETED) else None
