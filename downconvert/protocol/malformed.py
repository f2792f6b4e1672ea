"""Error texts for malformed messages. Positions are in bytes, from the message's start."""

from .errors import BadRequestError


def ended(end: int, at: int) -> BadRequestError:
    return BadRequestError(f"a number at {at}: only {end - at} bytes are left")


def too_few(size: int, end: int, at: int) -> BadRequestError:
    return BadRequestError(f"{size} bytes at {at}: only {end - at} are left")


def no_utf8(name: str, at: int, error: UnicodeDecodeError) -> BadRequestError:
    return BadRequestError(f"{name} at {at} is not UTF-8: {error.reason}")


def bad_length(name: str, at: int, length: int) -> BadRequestError:
    return BadRequestError(f"{name} before {at} has a length of {length}")


def too_many(name: str, end: int, at: int, count: int) -> BadRequestError:
    return BadRequestError(f"{name} before {at} has {count} elements in {end - at} bytes")


def too_large(name: str, at: int) -> BadRequestError:
    return BadRequestError(f"the request has too many elements: {name} before {at} has more")


def bad_tag(at: int, tag: int, before: int) -> BadRequestError:
    return BadRequestError(f"tag {tag} after tag {before} at {at}")
