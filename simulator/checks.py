"""Checks of options."""


def check(holds: bool, rule: str) -> None:
    """ValueError, with the rule, where it does not hold."""
    if not holds:
        raise ValueError(rule)
