"""The `headrace` command.

Exit codes: 0 success, 1 failure, 2 wrong usage or configuration, 130 stopped with Ctrl-C before the
work was done.
"""

import os
import sys

from headrace.cli.broker.up_options import plain_options
from headrace.model.error import ConfigError, HeadraceError, InvalidArgument
from headrace.telemetry.light_structlog import load_structlog


def main() -> None:
    """Run the console script. A user's mistake is one sentence on standard error, no traceback."""
    try:
        _run(sys.argv[1:])
    except (ConfigError, InvalidArgument) as error:
        fail(str(error), 2)
    except HeadraceError as error:
        fail(str(error), 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)  # the reader of our output is gone (`| head`): that is no error
    finally:
        _flush()


def _run(arguments: list[str]) -> None:
    options = plain_options(arguments)
    if options is None:
        from headrace.cli.command_group import app

        app()
        return
    load_structlog()
    from headrace.cli.broker.up_run import run_up

    sys.exit(run_up(options))


def _flush() -> None:
    """Flush standard output while a broken pipe can still be handled: the interpreter's own flush
    at exit would report it like a crash."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, code: int) -> None:
    """Print a message on standard error and exit."""
    print(f"headrace: {message}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
