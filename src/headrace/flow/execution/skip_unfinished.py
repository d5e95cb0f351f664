"""At most once: a batch that a crash interrupted is not repeated.

Spark writes a batch's offsets before it runs (`offsets/N`) and a commit after it (`commits/N`). A
restart repeats a batch that has offsets and no commit.

Rule 1: without state, such a batch gets a commit.
Rule 2: with state, the next batch needs the state that this one would have written. So it is
        repeated over no records: the batch before it gets its offsets.
Rule 3: the very first batch of a plan with state has none before it: it is repeated.
Rule 4: a batch that a planned stop recorded as not run is run. The record is for one start: it is
        removed before Spark runs the batch, so that a crash in it counts as one.
"""

import json

from headrace.flow.storage.file_store import FileStore, numbered

_NOT_RUN = "not-run"
_DONE = ("v1\n" + json.dumps({"nextBatchWatermarkMs": 0})).encode()


def skip_unfinished(checkpoint: FileStore, *, stateful: bool) -> None:
    """Change a checkpoint so that Spark does not repeat an unfinished batch."""
    begun = numbered(checkpoint.names("offsets"))
    not_run = _take_not_run(checkpoint)
    for batch in unfinished(checkpoint):
        if batch == not_run:
            continue
        if not stateful:
            checkpoint.write(f"commits/{batch}", _DONE)
        elif batch - 1 in begun:
            checkpoint.write(f"offsets/{batch - 1}", checkpoint.read(f"offsets/{batch}"))


def unfinished(checkpoint: FileStore) -> list[int]:
    """Return the batches of a checkpoint that have offsets and no commit, in order."""
    last_done = last_committed(checkpoint)
    begun = numbered(checkpoint.names("offsets"))
    return sorted(each for each in begun if each > last_done)


def last_committed(checkpoint: FileStore) -> int:
    """Return the newest batch that has a commit; -1: none has."""
    return max(numbered(checkpoint.names("commits")), default=-1)


def record_not_run(checkpoint: FileStore, batch: int) -> None:
    """Let the next start run an unfinished batch, of which Spark has run nothing."""
    checkpoint.write(_NOT_RUN, str(batch).encode())


def _take_not_run(checkpoint: FileStore) -> int | None:
    if not checkpoint.exists(_NOT_RUN):
        return None
    text = checkpoint.read(_NOT_RUN)
    checkpoint.remove(_NOT_RUN)
    return int(text) if text.isdigit() else None
