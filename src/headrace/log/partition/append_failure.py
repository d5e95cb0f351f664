"""What an append raises when the disk refuses, and what is left behind then."""

from errno import EDQUOT, ENOSPC

from headrace.log.partition.log_state import LogState
from headrace.log.segment.segment import Segment
from headrace.model.error import DiskFull, StorageError

_NO_ROOM = (ENOSPC, EDQUOT)


def write_failure(log: LogState, segment: Segment, error: OSError) -> StorageError:
    """Return what to raise when the bytes of a batch could not be written.

    A full disk costs this one append; any other error takes the directory offline.
    """
    if error.errno not in _NO_ROOM:
        return append_failure(log, error)
    try:
        # Cut off what was written before the disk was full: the file is as long as memory says.
        file = segment.file()
        file.truncate(segment.size_bytes)
        # Without this a crash could bring back a batch that the producer is going to send again.
        file.sync()
    except OSError as worse:
        return append_failure(log, worse)
    return DiskFull(f"there is no room on the disk of {log.path} for an append: free some space")


def append_failure(log: LogState, error: OSError) -> StorageError:
    """Take the directory offline, because memory and disk may differ now; return what to raise."""
    return log.storage.fail(
        StorageError(f"cannot append to {log.partition}: {error.strerror or error}")
    )
