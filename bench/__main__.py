"""Lists the measurements, each with the question that it answers."""

import ast
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

HERE: Final = Path(__file__).parent


def measurements() -> dict[str, str]:
    """Returns the command of each measurement, with the first sentence of its docstring."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        code = path.read_text()
        if path != Path(__file__) and '__name__ == "__main__"' in code:
            question, _, _ = (ast.get_docstring(ast.parse(code)) or "").partition("\n\n")
            found[f"bench.{path.stem}"] = " ".join(question.split())
    return found


def main() -> None:
    table = Table("python -m", "question")
    for command, question in measurements().items():
        table.add_row(command, question)
    Console().print(table)


if __name__ == "__main__":
    main()
