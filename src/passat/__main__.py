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
    except (KeyboardInterrupt, RuntimeError) as error:
        # Python 3.11 turns an interruption while a class is made into a RuntimeError.
        if isinstance(error, RuntimeError) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        print("error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
