"""Which keys the slots of a checkpoint have; see `plan.slot_key`.

Rule 1: the file `slot-partitions` has the number of partitions that the keys were made for. It is
        written before the first batch begins.
Rule 2: a checkpoint that has batches and no such file is of an earlier version, in which a slot's
        key was its number.
Rule 3: without a batch nothing depends on the file, so a start replaces what an earlier one left.
"""

from headrace.flow.error import FlowError
from headrace.flow.plan.slot_key import KEYS_ARE_SLOTS, SlotKeys
from headrace.flow.storage.file_store import FileStore, numbered

_FILE = "slot-partitions"


def checkpoint_keys(checkpoint: FileStore, slots: int, partitions: int) -> SlotKeys:
    """Return the keys of a plan's slots in its checkpoint.

    Args:
        slots: how many the plan has.
        partitions: how many there are between stages if this is the first start.

    Raises:
        FlowError: the file is damaged.
    """
    if not numbered(checkpoint.names("offsets")):
        checkpoint.write(_FILE, str(partitions).encode())
    elif not checkpoint.exists(_FILE):
        return KEYS_ARE_SLOTS
    else:
        text = checkpoint.read(_FILE).strip()
        if not text.isdigit() or int(text) < 1:
            raise FlowError(
                f"{_FILE} in the checkpoint {checkpoint.text} must be a number of partitions, and"
                " says where states are kept: restore it from a copy of the checkpoint, or start"
                " with a new checkpoint"
            )
        partitions = int(text)
    return SlotKeys.spread(slots, partitions)
