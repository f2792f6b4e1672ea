"""Files of a log: synced, replaced in one step, open when used."""
