"""Which process gets which file of a test run next."""

from types import SimpleNamespace
from typing import Any

from testkit.process.file_schedule import FileSchedule

UNITS = {"spark": ["tests/spark/"], "kafka": ["tests/kafka/test_one.py", "tests/kafka/test_two.py"]}
BUSY = ("spark", "tests/driver/")


class Process:
    """A process that has collected all tests; it runs what it is given."""

    shutting_down = False

    def __init__(self, name: str, tests: list[str]) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.tests = tests
        self.given: list[str] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += [self.tests[number] for number in numbers]

    def shutdown(self) -> None:
        self.shutting_down = True


class Run:
    """Two processes, of which a test says which one finishes its next test."""

    def __init__(self, *tests: str) -> None:
        option = SimpleNamespace(loadscopereorder=True, tx=["popen"] * 2)
        config: Any = SimpleNamespace(
            option=option,
            getvalue=lambda name: getattr(option, name),
            getoption=lambda name: getattr(option, name),
            rootpath=None,
        )
        log: Any = SimpleNamespace(loadscopesched=lambda *_: None)
        self.schedule = FileSchedule(config, log, units=UNITS, busy=BUSY)
        self.schedule.numnodes = 2
        self.processes: list[Any] = [Process(name, list(tests)) for name in ("gw0", "gw1")]
        for each in self.processes:
            self.schedule.add_node(each)
            self.schedule.add_node_collection(each, tests)
        self.schedule.schedule()
        self._done = [0, 0]

    def finish(self, process: int) -> None:
        given = self.processes[process].given[self._done[process]]
        self._done[process] += 1
        number = self.processes[process].tests.index(given)
        self.schedule.mark_test_complete(self.processes[process], number)

    def files(self, process: int) -> list[str]:
        """Return the files whose tests the process was given to run, in their order."""
        return list(
            dict.fromkeys(each.partition("::")[0] for each in self.processes[process].given)
        )


def names_in(file: str, count: int = 3) -> list[str]:
    return [f"{file}::test_{number}" for number in range(count)]


def test_files_of_a_unit_go_to_one_process() -> None:
    files = ["tests/kafka/test_one.py", "tests/unit/test_a.py", "tests/kafka/test_two.py"]
    run = Run(*(each for file in files for each in names_in(file)))

    assert run.files(0) == ["tests/kafka/test_one.py", "tests/kafka/test_two.py"]
    assert run.files(1) == ["tests/unit/test_a.py"]


def test_beside_a_busy_unit_runs_one_that_waits() -> None:
    files = ["tests/spark/test_a.py", "tests/driver/test_b.py", "tests/e2e/test_c.py"]
    files += ["tests/unit/test_d.py"]
    run = Run(*(each for file in files for each in names_in(file)))
    assert (run.files(0), run.files(1)) == (files[:1], files[2:3])

    run.finish(1)
    assert run.files(1) == files[2:], "the other one is busy"
    run.finish(0)
    assert run.files(0) == files[:2], "it is the busy one itself"


def test_a_busy_unit_does_not_wait_when_nothing_else_is_left() -> None:
    files = ["tests/spark/test_a.py", "tests/driver/test_b.py"]
    run = Run(*(each for file in files for each in names_in(file)))

    assert (run.files(0), run.files(1)) == (files[:1], files[1:])


def test_files_keep_the_order_of_the_collection() -> None:
    files = [f"tests/unit/test_{name}.py" for name in "abcd"]
    run = Run(*(each for at, file in enumerate(files) for each in names_in(file, 3 + at)))

    run.finish(0)
    assert (run.files(0), run.files(1)) == ([files[0], files[2]], [files[1]])
