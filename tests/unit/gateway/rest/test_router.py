"""Routes by path: what is decoded, what is not, what is not found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.rest.error import MethodNotAllowed, RestError
from headrace.gateway.rest.router import Router
from headrace.gateway.rest.table import ROUTES, WITHOUT_HEAD

ROUTER = Router(
    [
        ("GET", "/topics/{topic}", "one"),
        ("POST", "/topics/{topic}", "produce"),
        ("GET", "/topics/-/configs", "all configs"),
        ("GET", "/topics/{topic}/configs", "configs"),
        ("POST", "/topics/{topic}/configs:alter", "alter"),
    ]
)
ALL = Router(((each.method, each.path, each) for each in ROUTES), WITHOUT_HEAD)


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", b"/topics/a", ("one", {"topic": "a"})),
        ("GET", b"/topics/a/", ("one", {"topic": "a"})),
        ("HEAD", b"/topics/a", ("one", {"topic": "a"})),
        ("GET", b"/topics/a%2Fb", ("one", {"topic": "a/b"})),
        ("GET", b"/topics/..", ("one", {"topic": ".."})),
        ("GET", b"/topics/%2e%2e", ("one", {"topic": ".."})),
        ("GET", b"/topics/-/configs", ("all configs", {})),
        ("GET", b"/topics/x/configs", ("configs", {"topic": "x"})),
        ("POST", b"/topics/x/configs:alter", ("alter", {"topic": "x"})),
        ("POST", b"/topics/-", ("produce", {"topic": "-"})),
    ],
)
def test_a_path_is_divided_before_it_is_decoded(
    method: str, path: bytes, found: tuple[str, dict[str, str]]
) -> None:
    assert ROUTER.find(method, path) == found


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", b"/topics/a", 405),
        ("GET", b"/topics", 404),
        ("GET", b"/topics//configs", 404),
        ("GET", b"/topics/a/../b", 404),
        ("GET", b"/topics/%ff", 400),
        ("GET", b"/" + b"a" * 9000, 414),
        ("GET", b"/topics" + b"/a" * 100, 404),
    ],
)
def test_what_is_not_there_has_its_status(method: str, path: bytes, status: int) -> None:
    with pytest.raises(RestError) as error:
        ROUTER.find(method, path)
    assert error.value.status == status


@given(st.sampled_from(["GET", "POST", "PUT", "BREW"]), st.binary(max_size=100))
def test_any_path_is_found_or_refused(method: str, path: bytes) -> None:
    try:
        route, values = ALL.find(method, b"/" + path)
    except RestError as error:
        assert error.status in (400, 404, 405, 414)
    else:
        assert set(values) == {part[1:-1] for part in route.path.split("/") if part[:1] == "{"}


@pytest.mark.parametrize("path", [b"/topics/t/stream", b"/consumers/g/instances/i/records"])
def test_what_streams_or_consumes_takes_no_head(path: bytes) -> None:
    with pytest.raises(MethodNotAllowed) as error:
        ALL.find("HEAD", path)
    assert error.value.status == 405
    assert error.value.allowed == "GET"
    assert ALL.find("GET", path)


def test_other_methods_are_named() -> None:
    with pytest.raises(MethodNotAllowed) as error:
        ROUTER.find("DELETE", b"/topics/a")
    assert error.value.allowed == "GET, HEAD, POST"
