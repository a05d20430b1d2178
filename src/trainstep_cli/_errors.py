"""What a command says instead of a traceback."""


class CommandError(Exception):
    """An error that the user of the command line can mend; its message is one line."""
