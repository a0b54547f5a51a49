"""`python -m passat`, and the entry point of the command `passat`; interruptible while it is being imported."""

import sys
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Runs the command line of this process."""
    try:
        import passat.cli

        passat.cli.main()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
