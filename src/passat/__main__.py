"""`python -m passat`, and the entry point of the command `passat`; interruptible while it is being imported."""

import gc
import sys
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Runs the command line of this process."""
    gc.set_threshold(100_000)  # a command ends soon; in its first second, a tenth of the time would find no garbage
    try:
        import passat.cli

        passat.cli.main()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
