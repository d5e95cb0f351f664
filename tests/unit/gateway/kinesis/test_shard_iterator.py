"""Iterators and tokens are sealed, and end after five minutes."""

import base64

import pytest

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.identity.page_token import read_token, write_token
from headrace.gateway.kinesis.identity.seal import Seal, new_key
from headrace.gateway.kinesis.identity.shard_iterator import VALID_MS, ShardIterator

NOW_MS = 1_700_000_000_000
SEAL = Seal(new_key())
ITERATOR = ShardIterator("x" * 128, NOW_MS - 5, 2**32 - 1, 2**63 - 1)


def code_of(text: str, now_ms: int = NOW_MS, seal: Seal = SEAL) -> str:
    with pytest.raises(ServiceError) as caught:
        ShardIterator.opened(text, seal, now_ms)
    return caught.value.code


def test_an_iterator_comes_back_as_it_was_and_fits_the_model() -> None:
    text = ITERATOR.sealed(SEAL, NOW_MS)

    assert len(text) <= 512
    assert ShardIterator.opened(text, SEAL, NOW_MS + VALID_MS) == ITERATOR


def test_an_iterator_expires() -> None:
    text = ITERATOR.sealed(SEAL, NOW_MS)

    assert code_of(text, NOW_MS + VALID_MS + 1) == "ExpiredIteratorException"


def test_a_changed_iterator_is_invalid_whichever_byte_was_changed() -> None:
    raw = base64.b64decode(ITERATOR.sealed(SEAL, NOW_MS))

    for at in range(len(raw)):
        forged = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        assert code_of(base64.b64encode(forged).decode()) == "InvalidArgumentException"


@pytest.mark.parametrize("text", ["", "A", "AAAA", "é", "A" * 512])
def test_any_other_text_is_invalid(text: str) -> None:
    assert code_of(text) == "InvalidArgumentException"


def test_an_iterator_of_another_cluster_is_invalid() -> None:
    text = ITERATOR.sealed(Seal(new_key()), NOW_MS)

    assert code_of(text) == "InvalidArgumentException"


def test_a_token_serves_its_own_operation_only() -> None:
    token = write_token(SEAL, "ListShards", {"after": 4}, NOW_MS)

    assert read_token(SEAL, "ListShards", token, NOW_MS)["after"] == 4
    with pytest.raises(ServiceError, match="InvalidArgumentException"):
        read_token(SEAL, "ListStreams", token, NOW_MS)
    with pytest.raises(ServiceError, match="InvalidArgumentException"):
        ShardIterator.opened(token, SEAL, NOW_MS)
    with pytest.raises(ServiceError, match="ExpiredNextTokenException"):
        read_token(SEAL, "ListShards", token, NOW_MS + 300_001)
