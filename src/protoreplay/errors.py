"""What a user can do wrong, said in one line."""


class UserError(Exception):
    """A wrong call or bad input. Its message is one line: what is wrong and what would be right."""
