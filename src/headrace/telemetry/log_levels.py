"""Which log lines are written: a level per logger, which may change while the process runs.

A logger is called like the module that logs. It has the level that was set for it, or else for the
nearest package above it, or else that of the root.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

ROOT = "root"

_PACKAGE = "headrace"
_LOGGER_NAMES = ("log", "_log")


class LogLevels:
    """The levels of this process, by the name of a logger or of a package.

    Threads: any. Every line reads the level of its logger; changes are rare, and each replaces
    what was worked out before.
    """

    def __init__(self, root: int = logging.INFO) -> None:
        self._own = {ROOT: root}
        self._known: dict[str, int] = {}

    def level(self, name: str) -> int:
        """Return the level in force for a logger or a package."""
        level = self._known.get(name)
        if level is None:
            level = self._known[name] = self._find(name)
        return level

    def _find(self, name: str) -> int:
        own, above = self._own, name
        while above:
            if above in own:
                return own[above]
            above = above.rpartition(".")[0]
        return own[ROOT]

    def put(self, name: str, level: int) -> None:
        """Set the level of a logger, of a package, or of the root."""
        self._own = {**self._own, name: level}
        self._known = {}

    def clear(self, name: str) -> None:
        """Let a logger or a package have the level of the package above again."""
        self._own = {each: level for each, level in self._own.items() if each != name}
        self._known = {}

    def names(self) -> set[str]:
        """Return the root, every logger of the modules that are loaded, and the packages above."""
        found = {ROOT}
        for module in list(sys.modules):
            if module.startswith(f"{_PACKAGE}.") and _has_logger(sys.modules[module]):
                above = module
                while above:
                    found.add(above)
                    above = above.rpartition(".")[0]
        return found

    def drop_below(
        self, logger: Any, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Drop a line below the level of its logger; the first of structlog's processors."""
        level = structlog.processors.NAME_TO_LEVEL.get(method, logging.CRITICAL)
        if level < self.level(getattr(logger, "name", ROOT)):
            raise structlog.DropEvent
        return event


def _has_logger(module: object) -> bool:
    return any(hasattr(getattr(module, name, None), "bind") for name in _LOGGER_NAMES)


log_levels = LogLevels()
"""The levels of this process: structlog has one configuration for all of it."""
