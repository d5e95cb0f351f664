"""The levels of this broker's loggers as a configuration (KIP-412), under Kafka's names of levels.

A level holds until the process ends or it is changed again; the cluster's state does not have it.
"""

import logging
from collections.abc import Mapping, Sequence

from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.model.config_code import ConfigOperation
from headrace.telemetry.log_levels import ROOT, log_levels

_LEVELS: Mapping[str, int] = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {level: name for name, level in _LEVELS.items() if name != "TRACE"}


def logger_levels() -> dict[str, str]:
    """Return the level of every logger, by its name."""
    return {name: _NAMES[log_levels.level(name)] for name in sorted(log_levels.names())}


def alter_logger_levels(
    alterations: Sequence[ConfigAlteration], *, replacing: bool, validate_only: bool
) -> Rejection | None:
    """Set levels, or with DELETE take them back; all or nothing."""
    if replacing:
        return Rejection(
            ClusterError.INVALID_REQUEST,
            "levels of loggers are changed one by one: send IncrementalAlterConfigs",
        )
    known = log_levels.names()
    for alteration in alterations:
        problem = _problem(alteration, known)
        if problem is not None:
            return problem
    for alteration in () if validate_only else alterations:
        if alteration.operation is ConfigOperation.DELETE:
            log_levels.clear(alteration.key)
        else:
            log_levels.put(alteration.key, _LEVELS[alteration.value or ""])
    return None


def _problem(alteration: ConfigAlteration, known: set[str]) -> Rejection | None:
    name, operation = alteration.key, alteration.operation
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        return Rejection(
            ClusterError.INVALID_REQUEST, f"{name}: the level of a logger is set or deleted"
        )
    if name not in known:
        return Rejection(ClusterError.INVALID_CONFIG, f"there is no logger {name!r}")
    if operation is ConfigOperation.DELETE:
        if name == ROOT:
            return Rejection(
                ClusterError.INVALID_REQUEST, "the root logger cannot be without a level: set it"
            )
        return None
    if alteration.value not in _LEVELS:
        return Rejection(
            ClusterError.INVALID_CONFIG,
            f"{name} cannot have the level {alteration.value!r}: write one of {', '.join(_LEVELS)}",
        )
    return None
