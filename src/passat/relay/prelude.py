"""`relay.prelude`: the standard library's functions and constructors as fields."""

from passat.ir.expr import Constructor, GlobalVar
from passat.ir.module import IRModule
from passat.ir.types import GlobalTypeVar

__all__ = ["Prelude"]


class Prelude:
    """A module with the standard library (`mod`), whose functions are fields; `get_type` has the types and their constructors.

    Constructors are fields under their names in lower case, as before TVM 0.7.

    >>> prelude = Prelude()
    >>> prelude.map
    @map
    >>> prelude.get_type("List")[:2]
    (List, Cons)
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.mod.import_from_std("prelude.rly")

    def __getattr__(self, name: str) -> GlobalVar | Constructor:
        if name.startswith("_") or name == "mod":
            raise AttributeError(name)
        try:
            return self.mod.get_global_var(name)
        except KeyError as error:
            for data in self.mod.type_definitions.values():
                for made in data.constructors:
                    if made.name_hint.lower() == name:
                        return made
            raise AttributeError(error.args[0]) from None

    def get_type(self, canonical: str) -> tuple[GlobalTypeVar | Constructor, ...]:
        """The name of a type and its constructors. Raises KeyError."""
        return self.mod.get_type(canonical)
