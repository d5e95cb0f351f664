"""What an append raises when the disk refuses, and what is left behind then."""

from headrace.log.filesystem import has_no_room, sync_file
from headrace.log.partition.log_state import LogState
from headrace.log.segment.segment import Segment
from headrace.model.error import DiskFull, StorageError


def write_failure(
    log: LogState, segment: Segment, error: OSError, *, whole_bytes: int | None
) -> StorageError:
    """Return what to raise when the bytes of a batch could not be written.

    A full disk costs this one append; any other error takes the directory offline.

    Args:
        whole_bytes: from so many bytes on a batch could be whole, which its producer is going to
            send again; None for what a follower copies: the leader has it anyway.
    """
    if not has_no_room(error):
        return append_failure(log, error)
    try:
        # Cut off what was written before the disk was full: the file is as long as memory says.
        file = segment.file()
        written = file.size() - segment.size_bytes
        file.truncate(segment.size_bytes)
        if whole_bytes is not None and written >= whole_bytes:
            # Without this a crash could bring the batch back. Part of one it cannot: recovery cuts
            # that off. So the event loop, where a client's one batch is appended, does not wait.
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
