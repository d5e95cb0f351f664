"""Inflating the batches of a chunk, some of them ahead of their use, in a thread."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeAlias

from headrace.model.error import BatchTooLarge, CorruptBatch
from headrace.records.batch import Batch
from headrace.records.compression import Codec, guess_inflated_bytes, inflate

# A piece of work for the thread, and how many pieces are ahead of their use.
_PIECE_BYTES = 512 * 1024
_PIECES_AHEAD = 2
# A batch that inflates to more is left to its use: how much there is ahead must stay small.
_MOST_AHEAD_BYTES = 1024 * 1024

_Piece: TypeAlias = Future[list[memoryview | None]]


class Inflater:
    """Inflates batches one after the other; a thread is some batches ahead.

    Codecs run without the GIL, so the thread costs the broker's other threads next to nothing, and
    the kernels of compaction run meanwhile.

    Memory: about 2 MiB, and the largest batch. Use it as a context manager: the thread starts with
    the first compressed batch, and ends with the block.

    Example:
        with Inflater(128 << 20) as inflater:
            for body in inflater.inflate(batches): ...
    """

    def __init__(self, max_inflated_bytes: int) -> None:
        self.max_inflated_bytes = max_inflated_bytes
        self._thread: ThreadPoolExecutor | None = None

    def __enter__(self) -> "Inflater":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(cancel_futures=True)

    def inflate(self, batches: Sequence[Batch]) -> Iterator[memoryview]:
        """Yield the inflated records of each batch.

        Raises:
            CorruptBatch, UnsupportedBatch: a batch does not inflate.
            BatchTooLarge: it inflates to more than `max_inflated_bytes`.
        """
        ahead: deque[tuple[Sequence[Batch], _Piece | None]] = deque()
        for piece in _pieces(batches):
            ahead.append((piece, self._begin(piece)))
            if len(ahead) > _PIECES_AHEAD:
                yield from self._finish(*ahead.popleft())
        while ahead:
            yield from self._finish(*ahead.popleft())

    def _begin(self, batches: Sequence[Batch]) -> _Piece | None:
        if len(batches) == 1:
            return None  # large, or the only one: nothing is won
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="inflate")
        return self._thread.submit(_inflate_small, batches, self.max_inflated_bytes)

    def _finish(self, batches: Sequence[Batch], piece: _Piece | None) -> Iterator[memoryview]:
        found = [None] * len(batches) if piece is None else piece.result()
        for batch, body in zip(batches, found, strict=True):
            yield self._inflated(batch) if body is None else body

    def _inflated(self, batch: Batch) -> memoryview:
        return inflate(Codec(batch.compression), batch.records, self.max_inflated_bytes)


def _pieces(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    piece: list[Batch] = []
    size_bytes = 0
    for batch in batches:
        try:
            guess = guess_inflated_bytes(Codec(batch.compression), batch.records)
        except ValueError:
            guess = _PIECE_BYTES  # no codec: it comes alone, and says so at its turn
        if piece and size_bytes + guess > _PIECE_BYTES:
            yield piece
            piece, size_bytes = [], 0
        piece.append(batch)
        size_bytes += guess
    if piece:
        yield piece


def _inflate_small(batches: Sequence[Batch], max_inflated_bytes: int) -> list[memoryview | None]:
    """Inflate batches; None for those that are larger than they say, or damaged."""
    found: list[memoryview | None] = []
    left = min(_MOST_AHEAD_BYTES, max_inflated_bytes)
    for batch in batches:
        body = None
        if left > 0:
            try:
                body = inflate(Codec(batch.compression), batch.records, left)
            except (BatchTooLarge, CorruptBatch, ValueError):
                body = None  # it is tried again at its use, which then says what is wrong
        left -= 0 if body is None else len(body)
        found.append(body)
    return found
