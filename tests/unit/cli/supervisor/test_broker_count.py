"""`--brokers auto` suits the cores, and never leaves out a broker that has data."""

import pytest

from headrace.cli.supervisor.broker_count import broker_folder, brokers_for, choose_broker_count
from headrace.model.error import ConfigError


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1.5", "²"])
def test_other_values_are_named(tmp_path, text):
    with pytest.raises(ConfigError, match="a number from 1 on, or auto"):
        choose_broker_count(text, tmp_path, first_id=1, cores=4)


def test_a_number_is_taken_as_it_is(tmp_path):
    found = choose_broker_count("7", tmp_path, first_id=1, cores=1)

    assert (found.brokers, found.reason) == (7, None)


def test_auto_says_why(tmp_path):
    found = choose_broker_count("auto", tmp_path / "missing", first_id=1, cores=4)

    assert (found.brokers, found.reason) == (3, "3 brokers for 4 cores")


def test_more_cores_never_mean_fewer_brokers():
    counts = [brokers_for(cores) for cores in range(1, 200)]

    assert counts == sorted(counts)
    assert counts[0] == 1 and counts[-1] == 4


def test_a_machine_that_lost_cores_starts_all_that_have_data(tmp_path):
    for number in (20, 21, 22, 23):
        broker_folder(tmp_path, number).mkdir()

    found = choose_broker_count("auto", tmp_path, first_id=20, cores=2)

    assert found.brokers == 4
    assert "has data of so many (2 cores)" in found.reason


@pytest.mark.parametrize("ids", [[1001], [1, 3], [0, 1, 2]])
def test_ids_that_do_not_count_up_from_the_first_are_refused(tmp_path, ids):
    for number in ids:
        broker_folder(tmp_path, number).mkdir()

    with pytest.raises(ConfigError, match=rf"brokers {', '.join(map(str, ids))}, but .* holes"):
        choose_broker_count("auto", tmp_path, first_id=1, cores=1)
    assert choose_broker_count("3", tmp_path, first_id=1, cores=1).brokers == 3


def test_new_brokers_are_mentioned(tmp_path):
    for number in (1, 2):
        broker_folder(tmp_path, number).mkdir()

    found = choose_broker_count("auto", tmp_path, first_id=1, cores=8)

    assert found.brokers == 4
    assert "2 of them new: headrace cluster rebalance" in found.reason


def test_a_machine_that_joined_a_cluster_takes_no_further_ids(tmp_path):
    for number in (20, 21):
        broker_folder(tmp_path, number).mkdir()

    found = choose_broker_count("auto", tmp_path, first_id=20, cores=8, joined=True)

    assert found.brokers == 2
    assert "the ids from 22 on may be another machine's" in found.reason


def test_a_machine_that_joins_first_runs_what_suits_it(tmp_path):
    assert choose_broker_count("auto", tmp_path, first_id=20, cores=8, joined=True).brokers == 4


@pytest.mark.parametrize("joined", [True, False])
def test_the_only_broker_with_a_folder_is_started_there(tmp_path, joined):
    broker_folder(tmp_path, 20).mkdir()

    found = choose_broker_count("auto", tmp_path, first_id=20, cores=1, joined=joined)

    assert found.brokers == 1 and found.supervised


@pytest.mark.parametrize(("text", "supervised"), [("1", False), ("2", True)])
def test_a_single_broker_needs_no_supervisor(tmp_path, text, supervised):
    assert choose_broker_count(text, tmp_path, first_id=1, cores=1).supervised is supervised


def test_other_folders_do_not_count(tmp_path):
    for name in ("broker-x", "broker-9.old", "zookeeper", "broker-007"):
        (tmp_path / name).mkdir()
    (tmp_path / "broker-9").write_text("a file")

    assert choose_broker_count("auto", tmp_path, first_id=1, cores=2).brokers == 2


def test_the_data_of_a_single_broker_stays_its_own(tmp_path):
    (tmp_path / ".lock").touch()

    found = choose_broker_count("auto", tmp_path, first_id=1, cores=8)

    assert found.brokers == 1 and not found.supervised
    assert "choose another --data" in found.reason


def test_data_of_a_single_broker_and_of_several_is_refused(tmp_path):
    (tmp_path / ".lock").touch()
    used = broker_folder(tmp_path, 2)
    used.mkdir()
    assert choose_broker_count("auto", tmp_path, first_id=1, cores=8).brokers == 1
    (used / "meta.properties").touch()

    with pytest.raises(ConfigError, match=r"\.lock\).*broker-2/meta\.properties"):
        choose_broker_count("auto", tmp_path, first_id=1, cores=8)
