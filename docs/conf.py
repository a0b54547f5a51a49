"""How Sphinx builds the documentation: `make docs`."""

import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from passat import __version__

sys.path.insert(0, str(Path(__file__).parent))

from generators import expand  # in the folder of this file
from generators.api import public_names
from generators.docstrings import to_rst

project = "Passat"
author = "The Passat authors"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

smartquotes = False

html_theme = "furo"
html_extra_path = ["extra"]
html_title = f"Passat {__version__}"
html_copy_source = False
html_show_sphinx = False
nitpicky = True
# Types in signatures may be those of other packages, whose documentation is not fetched, or internal types of Passat.
nitpick_ignore_regex = [("py:class", ".*"), ("py:.*", r"(?!passat\.).*"), ("py:obj", r".*\.T")]  # T is a type variable
suppress_warnings = ["ref.python"]  # `type` in an annotation is the builtin one, even if a class has a property of that name


def public_reference(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement) -> nodes.reference | None:
    """Resolves a reference to an object by its defining module to its documentation, under the name that users import."""
    name = public_names().get(node.get("reftarget", ""))
    if name is None or node.get("refdomain") != "py":
        return None
    return env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, content)


def setup(app: Sphinx) -> None:
    """Inserts generated parts into the pages before they are read."""
    app.connect("source-read", lambda app, name, source: source.__setitem__(0, expand(source[0])))
    app.connect("autodoc-process-docstring", lambda app, what, name, obj, options, lines: lines.__setitem__(slice(None), to_rst(lines)))
    app.connect("missing-reference", public_reference)
