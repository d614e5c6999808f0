"""``python -m pipeloom``: the same as the ``pipeloom`` command."""

import sys

from pipeloom.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
