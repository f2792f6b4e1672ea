"""Translates Java's regular expressions for topic names to Python's `re`.

Spark's Kafka source matches with java.util.regex. Planning processes have no JVM, so patterns are
translated. Topic names are ASCII: a character class becomes the list of its characters.

Not translated, and refused: \\G, \\R, \\X, \\N{...}, \\b{g}, \\cX and octal escapes.

Not here: which option takes a pattern (options.py)."""

import re
import string
from collections.abc import Callable
from functools import cache
from typing import Final

ASCII: Final = frozenset(map(chr, range(128)))
GROUPS: Final = {
    "Lower": string.ascii_lowercase,
    "Upper": string.ascii_uppercase,
    "ASCII": "".join(ASCII),
    "Alpha": string.ascii_letters,
    "Digit": string.digits,
    "Alnum": string.ascii_letters + string.digits,
    "Punct": string.punctuation,
    "Graph": string.ascii_letters + string.digits + string.punctuation,
    "Print": string.ascii_letters + string.digits + string.punctuation + " ",
    "Blank": " \t",
    "XDigit": string.hexdigits,
    "Space": " \t\n\x0b\f\r",
    "L": string.ascii_letters,
    "Lu": string.ascii_uppercase,
    "Ll": string.ascii_lowercase,
    "N": string.digits,
    "Nd": string.digits,
    "P": "!\"#%&'()*,-./:;?@[\\]_{}",
    "Pd": "-",
    "Pc": "_",
}
NAMED: Final = GROUPS | {f"Is{name}": chars for name, chars in GROUPS.items()}
ESCAPES: Final = {
    "d": GROUPS["Digit"],
    "w": GROUPS["Alnum"] + "_",
    "s": GROUPS["Space"],
    "h": GROUPS["Blank"],
    "v": "\n\x0b\f\r",
}
CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})")
REPEATED: Final = re.compile(r"\{[0-9]+(,[0-9]*)?\}")
FLAGS: Final = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]+))?([:)])")


@cache
def compiled(pattern: str) -> Callable[[str], object]:
    """A matcher for whole topic names. ValueError: the pattern is invalid in Java, or is not
    translated."""
    try:
        return re.compile(_Translator(pattern).translated(), re.ASCII).fullmatch
    except (re.error, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


class _Translator:
    """Reads a pattern from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def translated(self) -> str:
        found: list[str] = []
        open_flags: list[list[str]] = [[]]  # of each open group, and of the pattern
        while self._at < len(self._text):
            char = self._text[self._at]
            flags = FLAGS.match(self._text, self._at)
            if flags is not None:
                found.append(self._flags(flags, open_flags))
            elif char == "\\":
                found.append(self._escape())
            elif char == "[":
                is_negated = self._text.startswith("[^", self._at)
                chars = self._class()
                found.append(_without(ASCII - chars) if is_negated else _listed(chars))
            elif char == "(":
                open_flags.append([])
                found.append(self._group())
            elif char == ")":
                if len(open_flags) == 1:
                    raise ValueError(f"a parenthesis without its beginning, at {self._at}")
                self._at += 1
                found.append(")" * (1 + len(open_flags.pop())))
            elif char == "|":  # flags stay valid in the other alternatives
                self._at += 1
                found += [")" * len(open_flags[-1]), "|", *open_flags[-1]]
            else:
                found.append(self._plain(char))
        return "".join(found) + ")" * len(open_flags[0])

    def _plain(self, char: str) -> str:
        if char == "{":
            repeated = REPEATED.match(self._text, self._at)
            if repeated is None:
                raise ValueError(f"a brace that repeats nothing, at {self._at}")
            self._at = repeated.end()
            return repeated[0]
        self._at += 1
        return char

    def _flags(self, flags: re.Match[str], open_flags: list[list[str]]) -> str:
        """Java's flags are valid from their position to the end of their group."""
        self._at = flags.end()
        on, off = ("".join(f for f in part or "" if f in "imsx") for part in flags.group(1, 2))
        begun = f"(?{on}{'-' if off else ''}{off}:"
        if flags[3] == ":":
            open_flags.append([])
        elif on or off:
            open_flags[-1].append(begun)
        else:
            return ""
        return begun

    def _group(self) -> str:
        named = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>").match(self._text, self._at)
        special = re.compile(r"\(\?(?:[:=!>]|<[=!])").match(self._text, self._at)
        if named is not None:
            self._at = named.end()
            return f"(?P<{named[1]}>"
        if special is not None:
            self._at = special.end()
            return special[0]
        if self._text.startswith("(?", self._at):
            raise ValueError(f"a group that Java does not know, at {self._at}")
        self._at += 1
        return "("

    def _escape(self) -> str:
        rest = self._text[self._at + 1 :]
        if rest.startswith("Q"):
            literal, _, _ = rest[1:].partition("\\E")
            self._at += 2 + len(literal) + 2
            return re.escape(literal)
        back = re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>").match(rest)
        if back is not None:
            self._at += 1 + back.end()
            return f"(?P={back[1]})"
        if rest[:1] in tuple("AbBzZ123456789") and not rest.startswith("b{"):
            self._at += 2
            return "\\Z" if rest[0] in "zZ" else f"\\{rest[0]}"
        return _listed(self._escaped_chars())

    def _escaped_chars(self) -> frozenset[str]:
        """The characters of an escape, inside a class or outside."""
        rest = self._text[self._at + 1 :]
        named = re.compile(r"([pP])(?:\{(\w+)\}|(\w))").match(rest)
        code = CODE.match(rest)
        if named is not None:
            chars = NAMED.get(named[2] or named[3])
            if chars is None:
                raise ValueError(f"\\{named[0]} is not known")
            self._at += 1 + named.end()
            return frozenset(chars) if named[1] == "p" else ASCII - frozenset(chars)
        if code is not None:
            self._at += 1 + code.end()
            return frozenset(chr(int(code[1] or code[2] or code[3], 16)))
        self._at += 2
        if rest[0].lower() in ESCAPES:
            chosen = frozenset(ESCAPES[rest[0].lower()])
            return chosen if rest[0].islower() else ASCII - chosen
        if rest[0] in CONTROLS:
            return frozenset(CONTROLS[rest[0]])
        if rest[0].isalnum():
            raise ValueError(f"\\{rest[0]} is not translated, or not known to Java")
        return frozenset(rest[0])

    def _class(self) -> frozenset[str]:
        """A character class, with nested classes: unions, and intersections by `&&`."""
        self._at += 1
        is_negated = self._text[self._at] == "^"
        self._at += is_negated
        parts: list[frozenset[str]] = []
        chars: frozenset[str] = frozenset()
        is_first = True
        while (char := self._text[self._at]) != "]" or is_first:
            is_first = False
            if self._text.startswith("&&", self._at):
                self._at += 2
                parts.append(chars)
                chars = frozenset()
            elif char == "[":
                chars |= self._class()
            else:
                chars |= self._range()
        self._at += 1
        for part in parts:
            chars &= part
        return ASCII - chars if is_negated else chars

    def _range(self) -> frozenset[str]:
        """A character, or a range of characters."""
        first = self._one()
        goes_on = self._text[self._at] == "-" and self._text[self._at + 1] not in "[]"
        if not goes_on or len(first) != 1:
            return first
        self._at += 1
        last = self._one()
        if len(last) != 1 or min(last) < min(first):
            raise ValueError(f"a range that has no end, at {self._at}")
        return frozenset(map(chr, range(ord(min(first)), ord(min(last)) + 1)))

    def _one(self) -> frozenset[str]:
        if self._text[self._at] == "\\":
            return self._escaped_chars()
        self._at += 1
        return frozenset(self._text[self._at - 1])


def _without(chars: frozenset[str]) -> str:
    """A Python class of all characters but these. With the flag `i` their other case does not match
    either, as it would if the class listed all other characters."""
    return f"[^{''.join(map(re.escape, sorted(chars)))}]" if chars else r"[\s\S]"


def _listed(chars: frozenset[str]) -> str:
    """A Python class with these characters; matches nothing if there are none."""
    return f"[{''.join(map(re.escape, sorted(chars)))}]" if chars else r"(?!)"
