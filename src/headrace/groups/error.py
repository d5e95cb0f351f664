"""The errors of a group coordinator, under Kafka's own names."""

from enum import StrEnum

from headrace.model.error import PeerError


class GroupError(StrEnum):
    """Kafka's error names, so that the broker's table from name to code needs no translation."""

    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    GROUP_SUBSCRIBED_TO_TOPIC = "GROUP_SUBSCRIBED_TO_TOPIC"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    INVALID_COMMIT_OFFSET_SIZE = "INVALID_COMMIT_OFFSET_SIZE"
    INVALID_GROUP_ID = "INVALID_GROUP_ID"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    OFFSET_METADATA_TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    STALE_MEMBER_EPOCH = "STALE_MEMBER_EPOCH"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    UNSTABLE_OFFSET_COMMIT = "UNSTABLE_OFFSET_COMMIT"
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"


class Refusal(PeerError):
    """A request that is answered with an error. Raised before anything has changed."""

    def __init__(self, error: GroupError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


# A record's strings have an int16 length, and a member id is a client's or an instance's id with
# random letters behind it.
_MAX_TEXT_BYTES = 32_000


def check_text(what: str, text: str | None) -> None:
    """Raise `Refusal` for a text that no record could hold; flexible requests can carry longer."""
    if (
        text is not None
        and len(text) * 4 > _MAX_TEXT_BYTES
        and len(text.encode()) > _MAX_TEXT_BYTES
    ):
        raise Refusal(
            GroupError.INVALID_REQUEST,
            f"{what} has at most {_MAX_TEXT_BYTES} bytes, this has {len(text.encode())}",
        )
