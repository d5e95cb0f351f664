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
    """Return a task and its attributes in a new process."""
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


def test_an_object_of_a_failed_batch_is_not_used_again() -> None:
    committed = TaskState()
    mine = process(committed)
    lost = TaskState(dict(committed.committed))
    call(*mine, lost)  # the batch fails after this call, and is repeated in another process
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


def test_a_deleted_attribute_is_deleted_in_every_process() -> None:
    state = TaskState()
    task, attributes = process(state)
    task.extra = 1
    call(task, attributes, state)
    del task.extra
    call(task, attributes, state)
    assert not hasattr(process(state)[0], "extra")
