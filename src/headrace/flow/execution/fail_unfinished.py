"""A batch of a Python spout that a crash interrupted: its tuples are emitted again, later.

Spark repeats a batch that has offsets and no commit, and would ask for the same tuples. They were
in the memory of a process that is gone, and the spout, which has had no ack for them, emits them
again.

Rule 1: the spout's part of such a batch becomes empty: it ends where the batch before it ended. The
        part of other spouts stays as it is.
Rule 2: the ids of its tuples are no longer in the checkpoint then, so that no later start acks
        them. They are returned, for the spout's `fail`.
Rule 3: a crash between the two leaves tuples that are neither acked nor failed. That is what Storm
        leaves of a worker that dies, and the spout emits them again as well.
"""

import json

from headrace.flow.plan.plan import Plan
from headrace.flow.runtime.spout_offset import MessageId, SpoutOffset
from headrace.flow.storage.file_store import FileStore, numbered

Failed = dict[str, tuple[MessageId, ...]]


def has_python_spout(plan: Plan) -> bool:
    """Return whether a plan has a spout that cannot give the tuples of a batch again."""
    return any(not getattr(each.work, "replayable", True) for each in plan.components.values())


def fail_unfinished(checkpoint: FileStore) -> Failed:
    """Empty the part of Python spouts in a batch that was not finished.

    Returns:
        The ids of its tuples, by spout.
    """
    begun = numbered(checkpoint.names("offsets"))
    last_done = max(numbered(checkpoint.names("commits")), default=-1)
    failed: Failed = {}
    for batch in sorted(each for each in begun if each > last_done):
        lines = checkpoint.read(f"offsets/{batch}").decode().split("\n")
        before = _ends(checkpoint, batch - 1) if batch - 1 in begun else {}
        changed = [_emptied(line, before, failed) for line in lines]
        if changed != lines:
            checkpoint.write(f"offsets/{batch}", "\n".join(changed).encode())
    return failed


def _ends(checkpoint: FileStore, batch: int) -> dict[str, str]:
    """Return where the Python spouts ended in a batch, as lines of Spark's log."""
    ends = {}
    for line in checkpoint.read(f"offsets/{batch}").decode().split("\n"):
        offset = SpoutOffset.in_line(line)
        if offset is not None:
            ends[offset.spout] = line
    return ends


def _emptied(line: str, before: dict[str, str], failed: Failed) -> str:
    offset = SpoutOffset.in_line(line)
    if offset is None:
        return line
    end = before.get(offset.spout, json.dumps(SpoutOffset(offset.spout).to_json()))
    if end != line:
        failed[offset.spout] = failed.get(offset.spout, ()) + offset.ids
    return end
