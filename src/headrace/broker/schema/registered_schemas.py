"""The schemas that a broker knows to be registered, and the questions about others.

Rule 1: nothing on the event loop waits for the registry. Threads of this class do, `_THREADS` of
them, and each question is asked once at a time.
Rule 2: only a yes counts for a batch that can wait. A producer registers a schema and sends its
first record right after it, so a no of a moment ago says nothing. That is also why a question that
was asked before a batch came, and found nothing, is asked once more for it. For a batch that cannot
wait a no counts for `_NO_SECONDS`: otherwise its producer would never get it.
Rule 3: what waits is bounded: `_MOST_PENDING` questions, `_MOST_PENDING_OF_TOPIC` of one topic, so
that no topic takes the place of the others. More of them fail, and so do all for a second after
the registry failed: its time-outs must not hold the threads one after the other. A failure of one
question, as with an answer that is none, stops no other.
Rule 4: a yes is asked again when it is old, while it still counts; a no takes it back. A registry
that does not answer takes back nothing, so what is known goes on while it is down.
Rule 5: a batch waits from when its questions were asked, by whichever batch. A registry that hangs
does not hold each batch that comes for as long as the first.
"""

import asyncio
import threading
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import structlog

from headrace.broker.limited_warning import LimitedWarning
from headrace.broker.schema.schema_lookup import SchemaLookup, SchemaQuestion
from headrace.model.error import HeadraceError, ServiceUnavailable

log = structlog.get_logger(__name__)

_THREADS: Final = 4
_MOST_PENDING: Final = 1_000
_MOST_PENDING_OF_TOPIC: Final = 100
_PAUSE_SECONDS: Final = 1.0
_FRESH_SECONDS: Final = 300.0
_NO_SECONDS: Final = 5.0
_MOST_NOES: Final = 1_000


class _Pending(NamedTuple):
    """A question under way, and when it was asked."""

    answer: "asyncio.Future[bool | None]"
    asked: float


class RegisteredSchemas:
    """Asks a registry in threads, and remembers what it has.

    Args:
        lookup: None where the broker has no registry.

    Threads: `known` from any; the rest on the event loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, lookup: SchemaLookup | None, most_known: int
    ) -> None:
        self._loop = loop
        self._lookup = lookup
        self._most_known = most_known
        self._lock = threading.Lock()
        self._known: OrderedDict[SchemaQuestion, float] = OrderedDict()
        # Until when each no counts, the oldest first.
        self._noes: OrderedDict[SchemaQuestion, float] = OrderedDict()
        self._pending: dict[SchemaQuestion, _Pending] = {}
        self._pending_of: Counter[str] = Counter()
        self._paused_until = 0.0
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="schema-lookup")
        self._warning = LimitedWarning(loop.time, log)
        self._closed = False

    @property
    def has_registry(self) -> bool:
        return self._lookup is not None

    def known(self, question: SchemaQuestion) -> bool:
        """Return whether the registry is known to have a schema; asks again if that is old."""
        now = self._loop.time()
        with self._lock:
            asked = self._known.get(question)
            if asked is None:
                return False
            self._known.move_to_end(question)
            if now - asked < _FRESH_SECONDS:
                return True
            self._known[question] = now
        self._loop.call_soon_threadsafe(self.ask, question)
        return True

    def ask(self, question: SchemaQuestion) -> "asyncio.Future[bool | None]":
        """Return a future of whether the registry has a schema; of None if it does not say."""
        pending = self._pending.get(question)
        if pending is not None:
            return pending.answer
        answer: asyncio.Future[bool | None] = self._loop.create_future()
        lookup, now = self._lookup, self._loop.time()
        if (
            lookup is None
            or self._closed
            or len(self._pending) >= _MOST_PENDING
            or self._pending_of[question.topic] >= _MOST_PENDING_OF_TOPIC
            or now < self._paused_until
        ):
            answer.set_result(None)
            return answer
        self._pending[question] = _Pending(answer, now)
        self._pending_of[question.topic] += 1
        work = self._loop.run_in_executor(self._threads, self._look_up, lookup, question)
        work.add_done_callback(lambda done: self._answered(question, done))
        return answer

    def answer_now(self, question: SchemaQuestion) -> bool | None:
        """Return the answer to a batch that does not wait; if there is none, ask and return None.

        False is what the registry said a few seconds ago.
        """
        if self.known(question):
            return True
        if self._loop.time() < self._noes.get(question, 0.0):
            return False
        self.ask(question)
        return None

    async def resolve(
        self, questions: "list[SchemaQuestion]", seconds: float
    ) -> "dict[SchemaQuestion, bool | None]":
        """Ask several questions; what is not answered in time is None.

        The time counts from when the first of them was asked (rule 5).
        """
        older = {each: self._pending[each].asked for each in questions if each in self._pending}
        deadline = min(older.values(), default=self._loop.time()) + seconds
        answers = await self._wait({each: self.ask(each) for each in questions}, deadline)
        again = [each for each in older if answers[each] is False]
        answers |= await self._wait({each: self.ask(each) for each in again}, deadline)
        return answers

    def close(self) -> None:
        """Ask nothing more. A question that a thread still asks ends when its time is over."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_result(None)
        if self._lookup is not None:
            self._lookup.close()

    async def _wait(
        self, asked: "dict[SchemaQuestion, asyncio.Future[bool | None]]", deadline: float
    ) -> "dict[SchemaQuestion, bool | None]":
        if asked:
            await asyncio.wait(asked.values(), timeout=max(0.0, deadline - self._loop.time()))
        return {each: answer.result() if answer.done() else None for each, answer in asked.items()}

    def _look_up(self, lookup: SchemaLookup, question: SchemaQuestion) -> bool:
        if self._loop.time() < self._paused_until:
            raise HeadraceError("the schema registry failed a moment ago")  # rule 3
        topic, head, key, strategy = question
        try:
            return lookup.knows(topic, head, key=key, strategy=strategy)
        except ServiceUnavailable:
            # Here, before this thread takes the next question.
            self._paused_until = self._loop.time() + _PAUSE_SECONDS
            raise

    def _answered(self, question: SchemaQuestion, done: "asyncio.Future[bool]") -> None:
        answer = self._pending.pop(question).answer
        self._pending_of[question.topic] -= 1
        if not self._pending_of[question.topic]:
            del self._pending_of[question.topic]
        found: bool | None = None
        if not done.cancelled():
            error = done.exception()
            if error is None:
                found = done.result()
                self._note(question, found)
            else:
                why = str(error) if isinstance(error, HeadraceError) else repr(error)
                self._warning.warn("schema_lookup_failed", topic=question.topic, reason=why)
        if not answer.done():
            answer.set_result(found)

    def _note(self, question: SchemaQuestion, found: bool) -> None:
        self._noes.pop(question, None)
        if not found:
            self._noes[question] = self._loop.time() + _NO_SECONDS
            if len(self._noes) > _MOST_NOES:
                self._noes.popitem(last=False)
        with self._lock:
            if not found:
                self._known.pop(question, None)
                return
            self._known[question] = self._loop.time()
            if len(self._known) > self._most_known:
                self._known.popitem(last=False)
