from downconvert.access.ledger import Entry, OwnLedger


def test_an_entry_is_kept_until_it_is_changed_and_none_leaves_it() -> None:
    ledger, seen = OwnLedger(), list[Entry]()

    def look(entry: Entry) -> None:
        seen.append(entry)

    ledger.change("a", look)
    ledger.change("a", lambda _: Entry(2.0, 3))
    ledger.change("a", look)
    assert seen == [Entry(), Entry(2.0, 3)]


def test_names_of_any_number_take_bounded_memory() -> None:
    """The one that was changed least recently is forgotten."""
    ledger, seen = OwnLedger(names_max=3), list[Entry]()
    for name in ("a", "b", "c", "a", "d"):
        ledger.change(name, lambda entry: Entry(0.0, entry.number + 1))
    assert len(ledger) == 3
    for name in ("a", "b"):
        ledger.change(name, seen.append)
    assert [entry.number for entry in seen] == [2, 0]
