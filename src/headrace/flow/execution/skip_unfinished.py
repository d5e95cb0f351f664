"""At most once: a batch that a crash interrupted is not repeated.

Spark writes a batch's offsets before it runs (`offsets/N`) and a commit after it (`commits/N`). A
restart repeats a batch that has offsets and no commit.

Rule 1: without state, such a batch gets a commit.
Rule 2: with state, the next batch needs the state that this one would have written. So it is
        repeated over no records: the batch before it gets its offsets.
Rule 3: the very first batch of a plan with state has none before it: it is repeated.
"""

import json

from headrace.flow.storage.file_store import FileStore, numbered

_DONE = ("v1\n" + json.dumps({"nextBatchWatermarkMs": 0})).encode()


def skip_unfinished(checkpoint: FileStore, *, stateful: bool) -> None:
    """Change a checkpoint so that Spark does not repeat an unfinished batch."""
    begun = numbered(checkpoint.names("offsets"))
    done = numbered(checkpoint.names("commits"))
    last_done = max(done, default=-1)
    for batch in sorted(each for each in begun if each > last_done):
        if not stateful:
            checkpoint.write(f"commits/{batch}", _DONE)
        elif batch - 1 in begun:
            checkpoint.write(f"offsets/{batch - 1}", checkpoint.read(f"offsets/{batch}"))
