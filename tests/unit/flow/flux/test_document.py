"""YAML values with line numbers and variables."""

from pathlib import Path

import pytest

from headrace.flow.flux.document import FluxError, read_document


def write(folder: Path, text: str) -> Path:
    path = folder / "topology.yaml"
    path.write_text(text)
    return path


def test_values_have_line_numbers(tmp_path: Path) -> None:
    root = read_document(write(tmp_path, "name: words\n\nspouts:\n  - id: lines\n"), {})

    spouts = root.mapping("a topology")["spouts"]
    assert spouts.plain() == [{"id": "lines"}]
    assert spouts.items("spouts")[0].position.line == 4


def test_variables_are_replaced_and_keep_the_type_of_their_value(tmp_path: Path) -> None:
    text = 'a: ${n}\nb: "${n}"\nc: x-${n}\nd: ${ENV-HOME}\n'
    used: set[str] = set()

    root = read_document(write(tmp_path, text), {"n": "4", "ENV-HOME": "/root"}, used)

    assert root.plain() == {"a": 4, "b": "4", "c": "x-4", "d": "/root"}
    assert used == {"n", "ENV-HOME"}


def test_a_variable_is_never_parsed_as_yaml(tmp_path: Path) -> None:
    root = read_document(write(tmp_path, "a: ${x}\n"), {"x": "1\nb: [2]"})

    assert root.plain() == {"a": "1\nb: [2]"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: ${n}\n", r"topology.yaml:2: \${n} has no value: give it with -X n="),
        ("a: ${ENV-NO_SUCH}\n", "topology.yaml:1: the environment has no variable NO_SUCH"),
        ("a: 1\nb: [1, 2\nc: 3\n", "topology.yaml:3: this is no YAML"),
        ("a: 1\na: 2\n", "topology.yaml:2: the key a is there twice"),
        ("", "is empty"),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FluxError, match=message):
        read_document(write(tmp_path, text), {})


def test_aliases_cannot_make_a_short_file_endless(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(FluxError, match="more than 100,000 values"):
        read_document(write(tmp_path, "\n".join(lines)), {})
