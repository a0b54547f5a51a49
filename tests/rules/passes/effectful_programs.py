"""Random programs over integers whose functions, closures, recursion and branches read and write references.

`source(random)` is the text of a module whose `@main` takes two integers. Its result holds every integer and the content of every reference
that it has at the end, so a lost, repeated or reordered effect shows.
"""

from random import Random

_ARITHMETIC = ("add", "subtract", "multiply", "maximum")


class _Writer:
    """Writes the lets of one scope, over the names that are in scope."""

    def __init__(self, random: Random, ints: list[str], refs: list[str], functions: list[str], depth: int, count: list[int]) -> None:
        self.random = random
        self.ints, self.refs, self.functions = list(ints), list(refs), list(functions)
        self.holders: list[str] = []
        self.depth = depth
        self.count = count
        self.lines: list[str] = []

    def let(self, prefix: str, value: str) -> str:
        self.count[0] += 1
        name = f"%{prefix}{self.count[0]}"
        self.lines.append(f"let {name} = {value};")
        return name

    def pick(self) -> str:
        return str(self.random.randint(-2, 4)) if self.random.random() < 0.3 else self.random.choice(self.ints)

    def condition(self) -> str:
        return f"less({self.pick()}, {self.pick()})"

    def small(self) -> str:
        """A number from 0 to 4, known or not."""
        return str(self.random.randint(0, 4)) if self.random.random() < 0.5 else f"minimum(maximum({self.pick()}, 0), 4)"

    def write(self, size: int) -> None:
        kinds = [self.compute, self.create, self.set, self.set, self.read, self.function, self.call, self.call, self.branch, self.choose]
        kinds += [self.recursion, self.hold, self.swap, self.tuple]
        for _ in range(size):
            self.random.choice(kinds)()

    def inner(self, params: list[str], size: int) -> str:
        """A block whose result is an integer."""
        made = _Writer(self.random, [*self.ints, *params], self.refs, self.functions, self.depth - 1, self.count)
        made.write(self.random.randint(0, size) if self.depth > 0 else 0)
        return " ".join([*made.lines, made.pick()])

    def compute(self) -> None:
        self.ints.append(self.let("v", f"{self.random.choice(_ARITHMETIC)}({self.pick()}, {self.pick()})"))

    def create(self) -> None:
        self.refs.append(self.let("r", f"ref({self.pick()})"))

    def set(self) -> None:
        if self.refs:
            self.let("u", f"ref_write({self.random.choice(self.refs)}, {self.pick()})")

    def read(self) -> None:
        if self.refs:
            self.ints.append(self.let("v", f"ref_read({self.random.choice(self.refs)})"))

    def function(self) -> None:
        self.count[0] += 1
        param = f"%p{self.count[0]}"
        self.functions.append(self.let("f", f"fn ({param}: int32) -> int32 {{ {self.inner([param], 5)} }}"))

    def call(self) -> None:
        if self.functions:
            self.ints.append(self.let("v", f"{self.random.choice(self.functions)}({self.pick()})"))

    def branch(self) -> None:
        self.ints.append(self.let("v", f"if ({self.condition()}) {{ {self.inner([], 4)} }} else {{ {self.inner([], 4)} }}"))

    def choose(self) -> None:
        if self.functions:
            first, second = self.random.choice(self.functions), self.random.choice(self.functions)
            self.functions.append(self.let("f", f"if ({self.condition()}) {{ {first} }} else {{ {second} }}"))

    def recursion(self) -> None:
        self.count[0] += 1
        param, name = f"%n{self.count[0]}", f"%loop{self.count[0]}"
        again = f"let %w{self.count[0]} = {name}(subtract({param}, 1)); add(%w{self.count[0]}, {{ {self.inner([param], 3)} }})"
        body = f"if (less({param}, 1)) {{ {self.inner([param], 2)} }} else {{ {again} }}"
        self.lines.append(f"let {name} = fn ({param}: int32) -> int32 {{ {body} }};")
        self.ints.append(self.let("v", f"{name}({self.small()})"))

    def hold(self) -> None:
        if self.functions:
            self.holders.append(self.let("h", f"ref({self.random.choice(self.functions)})"))

    def swap(self) -> None:
        if self.holders:
            holder = self.random.choice(self.holders)
            if self.random.random() < 0.5:
                self.let("u", f"ref_write({holder}, {self.random.choice(self.functions)})")
            else:
                self.functions.append(self.let("f", f"ref_read({holder})"))

    def tuple(self) -> None:
        if self.refs:
            whole = self.let("t", f"({self.random.choice(self.refs)}, {self.pick()})")
            whole = self.let("t", f"if ({self.condition()}) {{ {whole} }} else {{ {whole} }}") if self.random.random() < 0.3 else whole
            self.refs.append(self.let("r", f"{whole}.0"))
            self.ints.append(self.let("v", f"{whole}.1"))


def source(random: Random) -> str:
    """A module: `@main`, and functions that it may call, with a reference or without."""
    count = [0]
    helper = _Writer(random, ["%a"], ["%r"], [], 2, count)
    helper.write(random.randint(0, 5))
    pure = _Writer(random, ["%a"], [], [], 1, count)
    pure.write(random.randint(0, 3))
    main = _Writer(random, ["%x", "%y"], [], [], 3, count)
    cell = main.let("r", "ref(%x)")
    main.refs.append(cell)
    main.functions.append(main.let("f", f"fn (%q: int32) -> int32 {{ @helper({cell}, %q) }}"))
    main.functions.append("@plain")
    main.write(random.randint(1, 8))
    results = ", ".join([*main.ints, *(f"ref_read({ref})" for ref in main.refs)])
    return (
        f"def @helper(%r: ref(int32), %a: int32) -> int32 {{ {' '.join(helper.lines)} {helper.pick()} }}\n"
        f"def @plain(%a: int32) -> int32 {{ {' '.join(pure.lines)} {pure.pick()} }}\n"
        f"def @main(%x: int32, %y: int32) {{ {' '.join(main.lines)} ({results},) }}"
    )
