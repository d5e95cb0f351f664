"""A task's attributes are the same in every process."""

import threading
from typing import Any

from headrace.flow.runtime.task_state import TaskState
from headrace.flow.samza.attribute import TaskAttributes
from headrace.flow.samza.task import StreamTask


class Task(StreamTask):
    transient = ("model",)

    def __init__(self) -> None:
        self.seen = 0
        self.model = "made by every process"
        self.lock = threading.Lock()


def process(state: TaskState) -> tuple[Any, TaskAttributes]:
    """A task as a process has it."""
    task = Task()
    attributes = TaskAttributes(task, "Task")
    attributes.load(state)
    return task, attributes


def call(task: Any, attributes: TaskAttributes, state: TaskState) -> None:
    attributes.load(state)
    task.seen += 1
    attributes.save(state)
    state.accept()


def test_two_processes_take_turns_with_one_task() -> None:
    state = TaskState()
    one, other = process(state), process(state)
    for turn in (one, other, other, one):
        call(*turn, state)
    assert one[0].seen == 4


def test_an_object_of_a_batch_that_failed_does_not_pass_for_the_tasks() -> None:
    committed = TaskState()
    mine = process(committed)
    lost = TaskState(dict(committed.committed))
    call(*mine, lost)  # the batch fails behind this call, and is done again elsewhere
    call(*process(committed), committed)
    call(*mine, committed)
    assert mine[0].seen == 2


def test_what_does_not_pickle_and_what_is_transient_stays_in_its_process() -> None:
    state = TaskState()
    task, attributes = process(state)
    task.model = "changed here"
    call(task, attributes, state)
    again, _ = process(state)
    assert (again.seen, again.model) == (1, "made by every process")


def test_an_attribute_that_is_gone_is_gone_everywhere() -> None:
    state = TaskState()
    task, attributes = process(state)
    task.extra = 1
    call(task, attributes, state)
    del task.extra
    call(task, attributes, state)
    assert not hasattr(process(state)[0], "extra")
