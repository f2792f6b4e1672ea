"""Help of a command with many options: a heading for each group of them.

Not here: the groups (serve.py, gateway.py)."""

from collections.abc import Iterator, Mapping

import click


class GroupedCommand(click.Command):
    """`option_groups`: for each heading, the names of its parameters."""

    option_groups: Mapping[str, tuple[str, ...]] = {}

    def sections(self, context: click.Context) -> Iterator[tuple[str, list[click.Option]]]:
        """The headings with their options. The last one also has those that no group names, such as
        `--help`."""
        options = {
            one.name: one for one in self.get_params(context) if isinstance(one, click.Option)
        }
        *first, last = [
            (heading, [options.pop(name) for name in names])
            for heading, names in self.option_groups.items()
        ]
        yield from first
        yield last[0], last[1] + list(options.values())

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, options in self.sections(context):
            records = [one.get_help_record(context) for one in options]
            with formatter.section(heading):
                formatter.write_dl([one for one in records if one is not None])


def grouped_command(groups: Mapping[str, tuple[str, ...]]) -> type[GroupedCommand]:
    """A class for `click.command(cls=…)`."""

    class Command(GroupedCommand):
        option_groups = groups

    return Command
