"""Where Passat keeps what it measured, for later runs."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder of the caches, as the environment names it: `PASSAT_CACHE`, or `passat` in `XDG_CACHE_HOME`, or `~/.cache/passat`."""
    own = os.environ.get("PASSAT_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # Of a relative path the XDG specification says that it is to be ignored.
    return (Path(shared) if os.path.isabs(shared) else Path(os.path.expanduser("~"), ".cache")) / "passat"
