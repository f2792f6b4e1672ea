"""Keys, values and headers of a generated workload: events as JSON, and some random bytes.

How well a batch compresses depends on its text, so it is neither one letter repeated nor noise:
field names repeat, users and pages repeat now and then, words follow no pattern. Everything comes
from one seed."""

from random import Random
from typing import Final

from records.record import Headers
from records.units import KiB

_USERS: Final = 100_000
_NOTE_SIZE: Final = 256 * KiB  # of the text that notes are cut from; no batch has a part twice
_ACTIONS: Final = ("view", "click", "search", "add", "remove", "checkout", "login", "logout")
_CONSONANTS: Final = "bdfghklmnprstvwz"
_VOWELS: Final = "aeiou"


class Values:
    """Keys, values and headers, one after the other. The same `Random` makes the same ones."""

    def __init__(self, random: Random) -> None:
        self._random = random
        syllables = [consonant + vowel for consonant in _CONSONANTS for vowel in _VOWELS]
        words = ["".join(random.choices(syllables, k=random.randint(1, 4))) for _ in range(2000)]
        weights = [1 / rank for rank in range(1, len(words) + 1)]  # as in any language (Zipf)
        self._notes = " ".join(random.choices(words, weights, k=_NOTE_SIZE // 3))[:_NOTE_SIZE]

    def key(self) -> bytes:
        """A user: few users make most of the events."""
        return b"user-%06d" % (_USERS * self._random.random() ** 3)

    def event(self, size: int, timestamp: int) -> bytes:
        """An event of exactly `size` bytes: JSON, or its beginning if `size` is too small for
        it."""
        bits = self._random.getrandbits(64)
        head = (
            f'{{"ts":{timestamp},"action":"{_ACTIONS[bits & 7]}","page":"/p/{bits >> 3 & 0xFFF}",'
            f'"ms":{bits >> 15 & 0x3FF},"session":"{bits >> 25:010x}","note":"'
        )
        room = size - len(head) - 2
        if room < 0:
            return head[:size].encode()
        notes = self._notes
        if room > len(notes):
            notes *= room // len(notes) + 1
        at = bits % (len(notes) - room + 1)
        return f'{head}{notes[at : at + room]}"}}'.encode()

    def noise(self, size: int) -> bytes:
        """Bytes that no codec makes smaller."""
        return self._random.randbytes(size)

    def headers(self) -> Headers:
        """Headers like those of a tracing library, now and then one without a value."""
        trace = ("traceparent", b"00-%016x-01" % self._random.getrandbits(64))
        if self._random.random() < 0.1:
            return (trace, ("retry", None))
        return (trace, ("source", b"web"))
