"""Checks that the records of one batch name schemas which the registry has.

Theory of operation. A batch is opened in a thread, and `check` is called there with its records. If
every schema is known, that is all. Otherwise `check` raises `OpensLater`: the batch keeps its place
among those of its partition, the registry is asked, and then the batch is opened a second time,
when each question has its answer. See docs/decisions/0039.

Rule 1: a batch waits for `_PATIENCE_SECONDS` at most, and is then refused in a way that its
producer repeats. By then the answer is often known.
Rule 2: a batch of a transaction does not wait: its transaction could end meanwhile, and records
that come behind its marker would be in no transaction that any coordinator ends.
Rule 3: `_MOST_WAITING_BYTES` of batches wait, whatever the registry does.
Rule 4: reading the heads takes 7 us for each record. So it holds the threads that all batches share
for some tenths of a second at most (`_PROMPT_READ`), and the one for long batches for three seconds
(`_MOST_READ`, of keys and of values).
"""

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final

from headrace.broker.replica.batch_opener import OpensLater
from headrace.broker.schema.registered_schemas import RegisteredSchemas
from headrace.broker.schema.schema_lookup import SchemaQuestion
from headrace.model.error import (
    BatchTooLarge,
    ConfigError,
    InvalidRecord,
    RequestTimedOut,
    TakesLong,
)
from headrace.model.topic_config import LogConfig
from headrace.records.schema_head import SchemaHeads, schema_heads

_PATIENCE_SECONDS: Final = 2.0
_MOST_WAITING_BYTES: Final = 32 * 1024 * 1024
# Schemas of one batch that are asked for at a time: a producer has a few, a hostile one many.
_MOST_ASKED: Final = 100
_MOST_NAMED_RECORDS: Final = 1_000
# Records and headers that are read where other batches wait, and at all.
_PROMPT_READ: Final = 20_000
_MOST_READ: Final = 200_000


class SchemaChecks:
    """Makes the checks of batches, and counts the bytes that wait for answers."""

    def __init__(self, registered: RegisteredSchemas) -> None:
        self.registered = registered
        self.waiting_bytes = 0

    def of(self, topic: str, size_bytes: int, *, transactional: bool) -> "SchemaCheck":
        """Return the check of one batch."""
        return SchemaCheck(self, topic, size_bytes, transactional=transactional)


class SchemaCheck:
    """The check of one batch, however often it is opened.

    Threads: `check` in the thread that opens the batch, the rest on the event loop; never at once.
    """

    def __init__(
        self, checks: SchemaChecks, topic: str, size_bytes: int, *, transactional: bool
    ) -> None:
        self._checks = checks
        self._topic = topic
        self._size_bytes = size_bytes
        self._transactional = transactional
        self._answers: dict[SchemaQuestion, bool | None] = {}

    def check(self, config: LogConfig, rows: memoryview, count: int, patient: bool) -> None:
        """Check the records of the batch (`admission.CheckSchemas`).

        Raises:
            InvalidRecord: names the records without a schema, or with one that is not registered.
            TakesLong: not `patient`, and there are many records or headers.
            BatchTooLarge: there are too many in any case.
            OpensLater: the registry must be asked.
            RequestTimedOut: it did not answer in time.
            ConfigError: the broker has no registry.
        """
        if not self._checks.registered.has_registry:
            raise ConfigError(
                f"topic {self._topic} checks schemas, and the broker has no registry to ask: set "
                "confluent.schema.registry.url"
            )
        parts = []
        if config.confluent_key_schema_validation:
            strategy = config.confluent_key_subject_name_strategy
            parts.append((True, strategy, _heads(rows, count, key=True, patient=patient)))
        if config.confluent_value_schema_validation:
            strategy = config.confluent_value_subject_name_strategy
            parts.append((False, strategy, _heads(rows, count, key=False, patient=patient)))
        for key, _, heads in parts:
            self._refuse_missing(heads, key)
        asked = {
            SchemaQuestion(self._topic, head, key, strategy): records
            for key, strategy, heads in parts
            for head, records in heads.named.items()
        }
        self._refuse_unregistered(asked)
        unknown = [each for each in asked if not self._answers.get(each)]
        unknown = [each for each in unknown if not self._checks.registered.known(each)]
        if not unknown:
            return
        if self._answers:
            # They were asked for: there was no answer in time, or there are too many.
            raise _unanswered(unknown[0])
        raise OpensLater(lambda: self._ask(unknown[:_MOST_ASKED]))

    async def _ask(self, questions: list[SchemaQuestion]) -> None:
        checks, size = self._checks, self._size_bytes
        waits = not self._transactional and (
            not checks.waiting_bytes or checks.waiting_bytes + size <= _MOST_WAITING_BYTES
        )
        if not waits:
            self._answers = {each: checks.registered.answer_now(each) for each in questions}
            return
        checks.waiting_bytes += size
        try:
            self._answers = await checks.registered.resolve(questions, _PATIENCE_SECONDS)
        finally:
            checks.waiting_bytes -= size

    def _refuse_missing(self, heads: SchemaHeads, key: bool) -> None:
        if not heads.missing:
            return
        part = "key" if key else "value"
        why = f"its {part} names no schema"
        raise InvalidRecord(
            f"{len(heads.missing)} records have a {part} that names no schema, which "
            f"confluent.{part}.schema.validation asks for: byte 0 and an id of 4 bytes, or byte 1 "
            f"and a GUID of 16, before the {part} or in a header __{part}_schema_id. Send them "
            "with a serializer of the schema registry",
            [(record, why) for record in heads.missing[:_MOST_NAMED_RECORDS]],
        )

    def _refuse_unregistered(self, asked: dict[SchemaQuestion, list[int]]) -> None:
        wrong = {each: records for each, records in asked.items() if self._is_wrong(each)}
        if not wrong:
            return
        first = next(iter(wrong))
        count = sum(map(len, wrong.values()))
        named = merge(*(_reasons(each, records) for each, records in wrong.items()))
        raise InvalidRecord(
            f"{count} records name schemas that the registry does not have under the subject "
            f"of topic {self._topic}, as its {first.part}s' {first.schema}: register them first",
            list(islice(named, _MOST_NAMED_RECORDS)),
        )

    def _is_wrong(self, question: SchemaQuestion) -> bool:
        return self._answers.get(question) is False


def _heads(rows: memoryview, count: int, *, key: bool, patient: bool) -> SchemaHeads:
    try:
        return schema_heads(rows, count, key=key, most_read=_MOST_READ if patient else _PROMPT_READ)
    except BatchTooLarge as error:
        if patient:
            raise
        raise TakesLong(str(error)) from error


def _reasons(question: SchemaQuestion, records: list[int]) -> Iterator[tuple[int, str]]:
    why = f"its {question.part} names the schema with {question.schema}, which is not known"
    return ((record, why) for record in records)


def _unanswered(question: SchemaQuestion) -> RequestTimedOut:
    return RequestTimedOut(
        f"the schema registry has not said yet whether topic {question.topic} takes {question.part}"
        f"s of the schema with {question.schema}: send it again"
    )
