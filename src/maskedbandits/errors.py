"""A user's error, told in one line: what, where, and what was expected."""


class UserError(ValueError):
    """Something that the person at the keyboard can put right; it is printed without a traceback."""
