"""The leader epoch that a client claims to know (KIP-320)."""

from headrace.wire.error_code import ErrorCode


def epoch_error(known: int, claimed: int) -> ErrorCode:
    """Return the error for a claimed leader epoch: none for the known one and for -1."""
    if claimed < 0 or claimed == known:
        return ErrorCode.none
    return ErrorCode.fenced_leader_epoch if claimed < known else ErrorCode.unknown_leader_epoch
