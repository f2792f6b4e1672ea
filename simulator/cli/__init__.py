"""The subcommands that run experiments. The command finds them by name."""
