"""TVM's JSON of programs: a list of nodes with type keys and fields, in which shared nodes occur once.

* `nodes` has the fields of each kind of node, and makes nodes from fields (`make_node`).
* `arrays` encodes constants.
* `saving` and `loading` write and read texts (`save_json`, `load_json`).

Operators have Passat's attributes, which are saved as `DictAttrs`.
"""

from passat.ir.graph_json.loading import load_json
from passat.ir.graph_json.nodes import JSONError, make_node
from passat.ir.graph_json.saving import save_json

__all__ = ["JSONError", "load_json", "make_node", "save_json"]
