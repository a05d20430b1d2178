"""The command `trainstep`. Keras takes its backend when it is imported, so this stands beside the package and imports it late."""

import argparse
import io
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import _backends, _mnist
from ._errors import CommandError

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; `arguments` are those of the command line unless given.

    Returns:
        The exit code: 0, 2 after an error that the user can mend (one line on stderr says how), 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # Digits are drawn with blocks that an ASCII terminal does not have.
    options = parser().parse_args(arguments)
    try:
        options.run(options)
    except CommandError as error:
        print(f"trainstep {options.command}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


class _OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """Ends the process with exit code 2."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (`{self.prog} --help` lists what there is)\n")


def parser() -> argparse.ArgumentParser:
    """What the command line understands."""
    of_all = _OneLineParser(prog="trainstep", description="One training step, compiled whole on JAX, PyTorch and TensorFlow.")
    commands = of_all.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in (("mnist", _mnist), ("backends", _backends)):
        summary = (command.__doc__ or "").splitlines()[0]
        subparser = commands.add_parser(name, help=summary, description=summary)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return of_all
