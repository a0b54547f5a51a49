"""How Sphinx builds the documentation: `make docs`."""

from passat import __version__

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
