import numpy as np
import pytest

from headrace.records.kernel.memory import readable
from headrace.records.kernel.siphash import siphash128_of

KEY = np.frombuffer(bytes(range(16)), dtype=np.uint64)

# From the reference implementation: the key is 00 01 .. 0f, the input the first n of 00 01 02 ..
REFERENCE = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


@pytest.mark.parametrize(("size", "expected"), REFERENCE.items())
def test_agrees_with_the_reference_vectors(size: int, expected: str) -> None:
    low, high = siphash128_of(readable(bytes(range(size))), KEY[0], KEY[1])

    assert np.array([low, high], dtype=np.uint64).tobytes().hex() == expected


def test_another_key_gives_another_hash() -> None:
    data = readable(b"same bytes")

    assert siphash128_of(data, KEY[0], KEY[1]) != siphash128_of(data, KEY[1], KEY[0])
