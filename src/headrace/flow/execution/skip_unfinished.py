"""At most once: a batch that a crash interrupted is not repeated.

Spark writes a batch's offsets before it runs (`offsets/N`) and a commit after it (`commits/N`). A
restart repeats a batch that has offsets and no commit.

Rule 1: without state, such a batch gets a commit.
Rule 2: with state, the next batch needs the state that this one would have written. So it is
        repeated over no records: the batch before it gets its offsets.
Rule 3: the very first batch of a plan with state has none before it: it is repeated.
"""

import json
from pathlib import Path

_DONE = "v1\n" + json.dumps({"nextBatchWatermarkMs": 0})


def skip_unfinished(checkpoint: Path, *, stateful: bool) -> None:
    """Change a checkpoint so that Spark does not repeat an unfinished batch."""
    begun, done = _numbers(checkpoint / "offsets"), _numbers(checkpoint / "commits")
    last_done = max(done, default=-1)
    for batch in sorted(each for each in begun if each > last_done):
        if not stateful:
            _replace(checkpoint / "commits" / str(batch), _DONE)
        elif batch - 1 in begun:
            offsets = (checkpoint / "offsets" / str(batch)).read_text()
            _replace(checkpoint / "offsets" / str(batch - 1), offsets)


def _numbers(folder: Path) -> set[int]:
    if not folder.is_dir():
        return set()
    return {int(each.name) for each in folder.iterdir() if each.name.isdigit()}


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically, and remove Spark's checksum of the old one."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{path.name}.headrace")
    part.write_text(text)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    part.replace(path)
