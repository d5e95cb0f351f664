"""Whether a member of a KIP-848 group comes with the epoch that it has. Each raises `Refusal`."""

from headrace.groups.consumer.group_image import ConsumerGroupImage
from headrace.groups.consumer.message import JOIN_EPOCH, ConsumerHeartbeat
from headrace.groups.error import GroupError, Refusal
from headrace.groups.record import MemberState


def check_epoch(image: ConsumerGroupImage, member_id: str, request: ConsumerHeartbeat) -> None:
    """Check a heartbeat: its epoch is the member's, or the one before after a lost reply."""
    current = image.current_of(member_id)
    if request.member_epoch == JOIN_EPOCH:
        return
    # A state that only a later version knows: start this member from nothing.
    understood = current.state is not MemberState.UNKNOWN
    if request.member_epoch == current.member_epoch and understood:
        return
    answer_lost = (
        request.member_epoch == current.previous_member_epoch
        and request.owned is not None
        and request.owned <= current.assigned
    )
    if request.member_epoch > current.member_epoch or not (answer_lost and understood):
        raise Refusal(
            GroupError.FENCED_MEMBER_EPOCH,
            f"member {member_id} of group {image.group_id} is at epoch {current.member_epoch}, "
            f"not {request.member_epoch}: give up all partitions and join again",
        )


def check_not_stale(image: ConsumerGroupImage, member_id: str, epoch: int) -> None:
    """Check a commit or a fetch of offsets."""
    known = image.current_of(member_id).member_epoch
    if epoch != known:
        raise Refusal(
            GroupError.STALE_MEMBER_EPOCH,
            f"member {member_id} of group {image.group_id} is at epoch {known}, not {epoch}",
        )


def check_generation(image: ConsumerGroupImage, member_id: str, generation: int) -> None:
    """Check a member of the classic protocol, whose generation is its epoch."""
    known = image.current_of(member_id).member_epoch
    if generation != known:
        raise Refusal(
            GroupError.ILLEGAL_GENERATION,
            f"member {member_id} of group {image.group_id} is at generation {known}, "
            f"not {generation}",
        )
