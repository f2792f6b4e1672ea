"""Files as a log needs them: synced, replaced in one step, open when used."""
