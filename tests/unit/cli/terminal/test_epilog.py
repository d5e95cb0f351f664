"""Examples below the help."""

from headrace.cli.terminal.epilog import epilog


def test_what_an_example_does_stands_above_it() -> None:
    assert epilog("\nExamples:\n\n  do this     gently\n\n  do that\n\nThat is\nall.\n") == (
        "Examples:\n\n\b\n  # gently\n  do this\n\n\b\n  do that\n\nThat is\nall."
    )
