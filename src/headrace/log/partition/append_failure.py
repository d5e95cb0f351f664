"""What an append raises when the disk refuses, and what is left behind then."""

from headrace.log.filesystem import has_no_room, sync_file
from headrace.log.partition.log_state import LogState
from headrace.log.segment.segment import Segment
from headrace.model.error import DiskFull, StorageError


def write_failure(
    log: LogState, segment: Segment, error: OSError, *, first_batch_bytes: int | None
) -> StorageError:
    """Return what to raise when the bytes of a batch could not be written.

    A full disk costs this one append; any other error takes the directory offline.

    What was written is cut off. A crash may bring those bytes back until the segment is synced, and
    only recovery of the log's end cuts them off again. So it is synced before the next segment is
    started, and before a clean stop (`Segment.owes_cut`). The append itself does not wait.

    Args:
        first_batch_bytes: the size of the first batch of this write. If all of it was written,
            recovery could not tell that it was refused. None for batches that a follower copies:
            it may have them again.
    """
    if not has_no_room(error):
        return append_failure(log, error)
    try:
        # Cut off what was written before the disk was full: the file is as long as memory says.
        file = segment.file()
        written = file.size() - segment.size_bytes
        file.truncate(segment.size_bytes)
        segment.refused_writes += 1
        if first_batch_bytes is not None and written >= first_batch_bytes:
            # Only a write of several batches can fail after the first, and clients send one at a
            # time. So this does not hold up the event loop.
            sync_file(file)
    except OSError as worse:
        return append_failure(log, worse)
    return _disk_full(log)


def roll_failure(log: LogState, error: OSError) -> StorageError:
    """Return what to raise when the next segment could not be started, or the epoch noted.

    Nothing of the append is written by then, so a full disk costs no more than the append.
    """
    return _disk_full(log) if has_no_room(error) else append_failure(log, error)


def _disk_full(log: LogState) -> DiskFull:
    return DiskFull(f"there is no room on the disk of {log.path} for an append: free some space")


def append_failure(log: LogState, error: OSError) -> StorageError:
    """Take the directory offline, because memory and disk may differ now; return what to raise."""
    return log.storage.fail(
        StorageError(f"cannot append to {log.partition}: {error.strerror or error}")
    )
