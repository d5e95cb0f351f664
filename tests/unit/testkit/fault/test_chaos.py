"""Which faults a run of chaos makes."""

from pathlib import Path

import pytest

from headrace.model.error import InvalidArgument
from testkit.fault.chaos import Chaos
from testkit.fault.cluster_process import ClusterProcess


@pytest.fixture
def chaos(tmp_path: Path) -> Chaos:
    """Of a cluster that is not started: its faults have names all the same."""
    return Chaos(ClusterProcess(tmp_path), "orders", 3, seed=1)


def test_kinds_are_found_by_a_part_of_their_names(chaos: Chaos) -> None:
    assert chaos.kinds("mistyped") == ["broker started with a mistyped ZooKeeper root"]
    assert chaos.kinds() == list(chaos.faults())


def test_a_name_of_no_kind_is_refused_with_those_that_there_are(chaos: Chaos) -> None:
    with pytest.raises(InvalidArgument) as refused:
        chaos.kinds("mistypd")

    sentence, *names = str(refused.value).splitlines()
    assert sentence == "no fault has 'mistypd' in its name; write a part of one of:"
    assert [name.strip() for name in names] == list(chaos.faults())
