"""`python -m downconvert` is `downconvert`. So is this file where spark-submit runs it by path."""

import sys
from os.path import dirname

# A file that is run by its path has its own directory in front of everything else, and there
# `inspect` is not Python's.
if sys.path[:1] == [dirname(__file__)]:  # noqa: PTH120 - pathlib would load `inspect` first
    del sys.path[0]

from downconvert.cli import main  # absolute: by its path this file has no package

if __name__ == "__main__":
    sys.exit(main())
