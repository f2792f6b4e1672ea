"""The subcommands that run experiments; the command finds them by name."""
