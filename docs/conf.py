"""How Sphinx builds the documentation: `make docs`."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

from passat import __version__

sys.path.insert(0, str(Path(__file__).parent))

from generators import expand  # it stands beside this file

project = "Passat"
author = "The Passat authors"
copyright = author
version = release = __version__

extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

html_theme = "furo"
html_title = f"Passat {__version__}"
html_copy_source = False
html_show_sphinx = False
nitpicky = True


def setup(app: Sphinx) -> None:
    """Puts what is made from the program into the pages before they are read."""
    app.connect("source-read", lambda app, name, source: source.__setitem__(0, expand(source[0])))
