"""`python -m passat`, and what the command `passat` starts: the command line, interruptible while it is being imported."""

import sys
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Runs the command that the process was started with."""
    try:
        import passat.cli

        passat.cli.main()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
