"""The web server's access log: a file that grows and is rotated, for an agent to tail."""

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

from headrace.demo.page_view import PageView

_ROTATE_BYTES = 8 << 20


class AccessLog:
    """Appends whole lines. A full file is renamed and a new one started, as logrotate does; only
    one old file is kept.

    Example:
        with AccessLog(folder) as log:
            log.write(views)
    """

    def __init__(self, folder: Path, *, rotate_bytes: int = _ROTATE_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "access.log"
        self._rotate_bytes = rotate_bytes
        self._file: IO[str] = self.path.open("a", encoding="ascii")

    def write(self, views: Iterable[PageView]) -> None:
        self._file.writelines(view.to_log_line() + "\n" for view in views)
        self._file.flush()
        if self._file.tell() >= self._rotate_bytes:
            self._file.close()
            self.path.rename(self.path.with_suffix(".log.1"))
            self._file = self.path.open("a", encoding="ascii")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "AccessLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
