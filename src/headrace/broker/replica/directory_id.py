"""The ids of a broker's log directories: by them the cluster knows which data it trusts."""

from collections.abc import Iterable

import structlog

from headrace.log.log_directory import LogDirectory
from headrace.model.error import StorageError

log = structlog.get_logger(__name__)


def directory_ids(directories: Iterable[LogDirectory]) -> tuple[str, ...]:
    """Return the ids of directories that could be opened."""
    return tuple(str(each.meta.directory_id) for each in directories)


def renew_ids(directories: Iterable[LogDirectory]) -> None:
    """Give every directory another id: another process goes on with what they held. This process
    has the new ids even if they cannot be written."""
    for directory in directories:
        directory.meta = directory.meta.with_new_id()
        try:
            with directory.storage.io(f"write the id of {directory.path}"):
                directory.meta.write(directory.storage.filesystem, directory.path)
        except StorageError as error:
            log.error("directory_id_not_kept", path=str(directory.path), reason=str(error))
