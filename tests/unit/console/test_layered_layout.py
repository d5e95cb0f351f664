"""Boxes in layers, few arrows crossing."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.console.layered_layout import LayeredLayout

GRAPHS = st.integers(1, 14).flatmap(
    lambda size: st.tuples(
        st.just([f"n{number}" for number in range(size)]),
        st.lists(
            st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).map(
                lambda pair: (f"n{pair[0]}", f"n{pair[1]}")
            ),
            max_size=30,
        ),
    )
)


def place(layout: LayeredLayout, node: str) -> tuple[int, int]:
    return next((x, layer.index(node)) for x, layer in enumerate(layout.layers) if node in layer)


def crossings(layout: LayeredLayout) -> int:
    steps = [
        (place(layout, one), place(layout, two))
        for path in layout.paths.values()
        for one, two in pairwise(path)
    ]
    return sum(
        (one[0][1] - two[0][1]) * (one[1][1] - two[1][1]) < 0
        for number, one in enumerate(steps)
        for two in steps[:number]
        if one[0][0] == two[0][0]
    )


def test_a_chain_lies_from_left_to_right() -> None:
    layout = LayeredLayout.of(["c", "b", "a"], [("a", "b"), ("b", "c")])
    assert layout.layers == (("a",), ("b",), ("c",))


def test_an_arrow_over_a_layer_has_a_point_in_it() -> None:
    layout = LayeredLayout.of(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    first, point, last = layout.paths["a", "c"]
    assert (first, last) == ("a", "c")
    assert set(layout.layers[1]) == {"b", point}


def test_arrows_that_need_not_cross_do_not() -> None:
    layout = LayeredLayout.of(
        ["a", "b", "c", "x", "y", "z"], [("a", "z"), ("b", "y"), ("c", "x"), ("a", "y")]
    )
    assert crossings(layout) == 0


def test_a_circle_is_drawn_with_one_arrow_backwards() -> None:
    layout = LayeredLayout.of(["a", "b"], [("a", "b"), ("b", "a")])
    assert layout.layers == (("a",), ("b",))
    assert layout.paths["b", "a"] == ("b", "a")


@given(GRAPHS)
def test_everything_has_one_place_and_arrows_pass_every_layer(
    graph: tuple[list[str], list[tuple[str, str]]],
) -> None:
    nodes, arrows = graph
    layout = LayeredLayout.of(nodes, arrows)
    everything = [each for layer in layout.layers for each in layer]
    assert len(everything) == len(set(everything))
    assert set(nodes) <= set(everything)
    for (source, target), path in layout.paths.items():
        assert (path[0], path[-1]) == (source, target)
        xs = [place(layout, each)[0] for each in path]
        if xs[0] < xs[-1]:
            assert xs == list(range(xs[0], xs[-1] + 1))
    assert LayeredLayout.of(nodes, arrows) == layout


def test_a_graph_that_would_take_long_has_no_layers() -> None:
    nodes = [str(number) for number in range(100)]
    chain = list(pairwise(nodes))
    layout = LayeredLayout.of(nodes, [*chain, *((nodes[0], each) for each in nodes[50:])])
    assert layout.layers == ()
    assert len(LayeredLayout.of(nodes, chain).layers) == 100
