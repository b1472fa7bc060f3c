"""A mistake of the user's, told in one line: what, where, and what was expected."""


class Mistake(ValueError):
    """Something that the person at the keyboard can put right; the command line prints it without a traceback."""
