"""Prints the loop IR as text."""

from passat.ir.tir.loops import Accumulate, Call, Cast, Const, Expr, For, Let, Load, Local, LoopFunc, Seq, Stmt, Store, Var


def show(function: LoopFunc) -> str:
    """Prints a function as text.

    >>> from passat.ir.tir.loops import Buffer
    >>> x, y, i, n = Buffer("x"), Buffer("y"), Var("i"), Var("n")
    >>> double = Store(y, i, Call("add", (Load(x, i), Load(x, i))))
    >>> print(show(LoopFunc("double", (x, y, n), For(i, n, double))))
    fn double(x: float32[], y: float32[], n: int64) {
      for i in n {
        y[i] = add(x[i], x[i])
      }
    }
    """
    params = ", ".join(f"{param.name}: {param.dtype}{'' if isinstance(param, Var) else '[]'}" for param in function.params)
    return "\n".join([f"fn {function.name}({params}) {{", *_lines(function.body, "  "), "}"])


def _lines(stmt: Stmt, indent: str) -> list[str]:
    if isinstance(stmt, Store):
        return [f"{indent}{stmt.buffer.name}[{_expr(stmt.index)}] = {_expr(stmt.value)}"]
    if isinstance(stmt, Let):
        return [f"{indent}let {stmt.var.name} = {_expr(stmt.value)}", *_lines(stmt.body, indent)]
    if isinstance(stmt, Local):
        return [f"{indent}local {stmt.var.name} = {_expr(stmt.value)}", *_lines(stmt.body, indent)]
    if isinstance(stmt, Accumulate):
        return [f"{indent}{stmt.var.name} {stmt.name}= {_expr(stmt.value)}"]
    if isinstance(stmt, For):
        return [f"{indent}for {stmt.var.name} in {_expr(stmt.extent)} {{", *_lines(stmt.body, f"{indent}  "), f"{indent}}}"]
    assert isinstance(stmt, Seq)
    return [line for each in stmt.body for line in _lines(each, indent)]


def _expr(expr: Expr) -> str:
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Const):
        return repr(expr.value) if expr.dtype == "float32" else f"{expr.dtype} {expr.value!r}"
    if isinstance(expr, Load):
        return f"{expr.buffer.name}[{_expr(expr.index)}]"
    if isinstance(expr, Cast):
        return f"{expr.dtype}({_expr(expr.value)})"
    assert isinstance(expr, Call)
    return f"{expr.name}({', '.join(map(_expr, expr.args))})"
