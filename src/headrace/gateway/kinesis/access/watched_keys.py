"""The access keys that hold now: the file is read again when it changes.

Rule 1: keys that are taken out of the file are refused within `LOOK_SECONDS` or little more.
Rule 2: a file that cannot be read, or has a wrong line, changes nothing, and the log says so once.
A file without keys is no such file: it lets no one in.
Rule 3: secrets and principals change together. A key whose principal were forgotten before its
secret would be one of the owner's.
"""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from headrace.gateway.kinesis.access.access_keys import AccessKey, parse_access_keys
from headrace.model.error import ConfigError

log = structlog.get_logger()

LOOK_SECONDS: Final = 1.0


class KeySet(NamedTuple):
    """Secrets by access key id, None if every signature is accepted; ARNs of foreign users."""

    secrets: Mapping[str, str] | None
    principals: Mapping[str, str]

    @classmethod
    def of(cls, keys: Mapping[str, AccessKey]) -> "KeySet":
        return cls(
            {name: each.secret for name, each in keys.items()},
            {name: each.principal for name, each in keys.items() if each.principal},
        )


class WatchedKeys:
    """The keys of one gateway. Threads: `current` may be read in any.

    Args:
        keys: what holds from the start.
        path: their file; None if it is not to be read again.
    """

    def __init__(self, keys: KeySet, path: Path | None = None) -> None:
        self.current = keys
        self._path = path
        self._seen: tuple[int, ...] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinesis-keys", daemon=True)

    def start(self) -> None:
        if self._path is not None:
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:  # a thread that ends would keep stolen keys for ever
                log.exception("kinesis_keys_failed")

    def look(self) -> None:
        """Read the file if it is another one than at the last look."""
        if self._path is None:
            return
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        self._seen = stamp  # before it is read: a change meanwhile is seen at the next look
        try:
            keys = KeySet.of(parse_access_keys(self._path))
        except ConfigError as error:
            log.warning("kinesis_keys_not_read", error=str(error), kept=len(self.current[0] or ()))
            return
        if keys != self.current:
            before, now = set(self.current.secrets or ()), set(keys.secrets or ())
            self.current = keys
            added, removed = sorted(now - before), sorted(before - now)
            log.info("kinesis_keys_read", keys=len(now), added=added, removed=removed)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
