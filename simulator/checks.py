"""Checks of options."""


def check(holds: bool, rule: str) -> None:
    """Raises ValueError with the rule if it does not hold."""
    if not holds:
        raise ValueError(rule)
