"""At most once: a batch that was begun and not finished is not done again.

Spark notes a batch's offsets before it runs (`offsets/N`) and that it is done after it
(`commits/N`). At a restart, what was begun and not noted as done is run again.

Rule 1: without state, such a batch is noted as done.
Rule 2: with state, the next batch needs the state that this one would have written. So it is run
        again, over nothing: the batch before it is given its offsets.
Rule 3: the very first batch of a plan with state has none before it: it is run again.
"""

import json
from pathlib import Path

_DONE = "v1\n" + json.dumps({"nextBatchWatermarkMs": 0})


def skip_unfinished(checkpoint: Path, *, stateful: bool) -> None:
    """Let what a batch has begun, and not finished, be over."""
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
    """Whole or not at all, and without Spark's check sum of what was there before."""
    path.parent.mkdir(exist_ok=True)
    made = path.with_name(f".{path.name}.headrace")
    made.write_text(text)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    made.replace(path)
