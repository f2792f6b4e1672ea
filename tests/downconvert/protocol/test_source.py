"""Functions that are written line by line do what their lines say, and never more."""

from downconvert.protocol.source import Source


def test_lines_belong_to_the_block_that_they_are_added_in() -> None:
    code = Source()
    with code.block("for number in numbers"):
        with code.block("if number > 1"):
            code.line("found.append(number)")
        code.line("found.append(0)")
    code.line("return found")
    assert code.compiled("numbers, found")([1, 2], []) == [0, 2, 0]


def test_a_constant_is_the_object_itself() -> None:
    code, kept = Source(), [1]
    code.line(f"return {code.constant(kept)}")
    assert code.compiled("")() is kept


def test_a_text_with_quotes_and_line_ends_stays_a_text() -> None:
    code, text = Source(), "'''\n\"; raise SystemExit #"
    code.line(f"return {code.constant(text)}")
    assert code.compiled("")() == text


def test_no_two_names_are_the_same() -> None:
    code = Source()
    names = [code.variable(), code.constant([]), code.variable(), code.constant(())]
    assert len(set(names)) == 4
