"""The ids of a broker's log directories: by them the cluster knows which data it trusts."""

from collections.abc import Iterable, Sequence
from uuid import uuid4

import structlog

from headrace.log.log_directory import LogDirectory
from headrace.model.error import StorageError

log = structlog.get_logger(__name__)


def directory_ids(directories: Iterable[LogDirectory]) -> tuple[str, ...]:
    """Return the ids of directories; one that its disk had no room for is left out."""
    ids = (each.meta.directory_id for each in directories)
    return tuple(str(each) for each in ids if each is not None)


def home_of(directories: Sequence[LogDirectory]) -> str:
    """Return what stands for a broker's data: the id of its first directory."""
    return str(directories[0].meta.directory_id or uuid4())


def renew_ids(directories: Iterable[LogDirectory]) -> bool:
    """Give every directory another id: another process goes on with what they held. Return whether
    all of them could be written."""
    written = True
    for directory in directories:
        renewed = directory.meta.with_new_id()
        try:
            with directory.storage.io(f"write the id of {directory.path}"):
                renewed.write(directory.storage.filesystem, directory.path)
            directory.meta = renewed
        except StorageError as error:
            log.error("directory_id_not_kept", path=str(directory.path), reason=str(error))
            written = False
    return written
