"""Which right each route asks for, and what rights let a user do."""

import re
from pathlib import Path

import pytest

from headrace.gateway.access.user import add_user
from headrace.gateway.access.watched_users import WatchedUsers
from headrace.gateway.rest.access.caller import ANYONE, Caller, authenticate
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.access.topic_users import TOPIC_USERS
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.route import Route
from headrace.gateway.rest.table import ROUTES
from headrace.model.error import ConfigError

OPEN = {"/", "/brokers", "/openapi.json", "/v3/clusters", "/v3/clusters/{cluster_id}"}
LISTS = ("/topics", "/brokers", "/brokers/{broker_id}", "/consumer-groups", "/partition-replicas",
         "/topics/-/configs", "/topics/-/partitions/-/reassignment")  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=lambda each: f"{each.method} {each.path}")
def test_every_route_asks_for_a_right_to_what_its_path_names(route: Route) -> None:
    names = set(re.findall(r"{(\w+)}", route.path))
    if {"group_name", "consumer_group_id"} & names:
        assert route.right is Right.GROUP
    elif "topic_name" in names:
        changes = route.method != "GET"
        produces = "/records" in route.path or not route.path.startswith("/v3")
        expected = {Right.WRITE if produces else Right.ADMIN} if changes else {Right.DESCRIBE}
        if route.path.endswith("/stream"):
            expected = {Right.READ}
        assert route.right in expected
    elif route.method != "GET":
        assert route.right is (Right.BODY if route.path.endswith("/topics") else Right.CLUSTER)
    else:
        is_open = route.path in OPEN or route.path.endswith(LISTS)
        assert route.right is (Right.LOGIN if is_open else Right.CLUSTER)


def caller(path: Path, *rights: str) -> Caller:
    secret = add_user(path, TOPIC_USERS, "ann", list(rights))
    return authenticate(WatchedUsers(path, TOPIC_USERS), f"Bearer {secret}")


@pytest.mark.parametrize(
    ("right", "can"),
    [
        ("read:a-", {Right.DESCRIBE, Right.READ}),
        ("write:a-*", {Right.DESCRIBE, Right.WRITE}),
        ("group:a-", {Right.GROUP}),
        ("admin:a-", {Right.DESCRIBE, Right.READ, Right.WRITE, Right.ADMIN, Right.GROUP}),
        ("admin:b-", set()),
    ],
)
def test_a_right_lets_a_user_do_this_and_no_more(
    tmp_path: Path, right: str, can: set[Right]
) -> None:
    ann = caller(tmp_path / "users", right)
    named = set(Right) - {Right.LOGIN, Right.BODY, Right.CLUSTER}

    assert {each for each in named if ann.can(each, "a-topic")} == can
    with pytest.raises(RestError, match="administration of the cluster"):
        ann.check_path(Right.CLUSTER, {})


def test_the_administrator_of_everything_administers_the_cluster(tmp_path: Path) -> None:
    caller(tmp_path / "users", "admin:*").check_path(Right.CLUSTER, {})
    ANYONE.check_path(Right.CLUSTER, {})


def test_rights_that_are_taken_away_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.gateway.access.watched_users._LOOK_SECONDS", 0.0)
    path = tmp_path / "users"
    ann = caller(path, "read:a-")
    assert ann.can(Right.READ, "a-topic")
    add_user(path, TOPIC_USERS, "ann", ["read:a-"])

    assert not ann.can(Right.READ, "a-topic")


def test_wrong_rights_and_logins_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="admin:PREFIX or group:PREFIX"):
        add_user(tmp_path / "users", TOPIC_USERS, "ann", ["own:x"])
    caller(tmp_path / "users", "read:a-")
    with pytest.raises(RestError) as refusal:
        authenticate(WatchedUsers(tmp_path / "users", TOPIC_USERS), "Bearer x")
    assert (refusal.value.status, refusal.value.code) == (401, 40101)
