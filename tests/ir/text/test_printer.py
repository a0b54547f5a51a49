"""Golden texts of printed programs, and the notation of every kind of value."""

import json

import numpy as np

from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    If,
    Let,
    Match,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    const,
    var,
)
from passat.ir.infer import infer_module, infer_type
from passat.ir.module import IRModule
from passat.ir.op import get_op
from passat.ir.shape import SymDim
from passat.ir.tensor import Tensor
from passat.ir.text import astext, parse, parse_expr, pretty_print
from passat.ir.types import GlobalTypeVar, TensorType
from tests.share import share

x, y, c = var("x", shape=(2, 3)), var("y", shape=("n",)), var("c", "bool")


def lines(text: str) -> str:
    """A golden text, without its line break and indentation in this file."""
    return "\n".join(line.removeprefix("        ") for line in text.strip("\n").split("\n")).rstrip()


def test_a_module() -> None:
    module = IRModule({"main": Function([x, y], get_op("nn.softmax")(x + 1.0, axis=0), attrs={"Primitive": 1})})
    assert astext(infer_module(module)) == (
        lines(
            """
        #[version = "0.0.5"]
        def @main(%x: Tensor[(2, 3), float32], %y: Tensor[(n), float32], Primitive=1) {
          %0 = add(%x, 1f /* ty=float32 */) /* ty=Tensor[(2, 3), float32] */;
          nn.softmax(%0, axis=0) /* ty=Tensor[(2, 3), float32] */
        }
        """
        )
        + "\n"
    )


def test_definitions_and_functions_are_set_apart_by_empty_lines() -> None:
    text = lines(
        """
        extern type File

        type List[A] {
          Cons(A, List[A]),
          Nil,
        }

        def @f(%xs: List[int8]) -> int32 {
          match? (%xs) {
            Cons(%head, Cons(_, %rest)) => {
              %0 = Cons(%head, %rest) /* ty=List[int8] */;
              @f(%0) /* ty=int32 */
            },
          }
        }

        def @main() {
          %0 = Nil /* ty=List[_] */;
          @f(%0) /* ty=int32 */
        }
        """
    )
    assert str(parse(text)) == text


def test_shared_expressions_get_numbers_in_the_order_of_evaluation() -> None:
    shared = x + x
    assert pretty_print(Function([x], Tuple([shared * x, shared, shared[0]]))) == lines(
        """
        fn (%x: Tensor[(2, 3), float32]) {
          %0 = add(%x, %x);
          %1 = multiply(%0, %x);
          %2 = %0.0;
          (%1, %0, %2)
        }
        """
    )


def test_a_node_is_bound_in_the_innermost_body_around_its_uses() -> None:
    outer, inner, twice = -x, x * x, x - x
    choice = If(c, Tuple([outer, inner, inner]), If(c, Tuple([twice]), Tuple([twice, outer])))
    assert pretty_print(Function([x, c], choice)) == lines(
        """
        fn (%x: Tensor[(2, 3), float32], %c: bool) {
          %0 = negative(%x);
          if (%c) {
            %1 = multiply(%x, %x);
            (%0, %1, %1)
          } else {
            %2 = subtract(%x, %x);
            if (%c) {
              (%2,)
            } else {
              (%2, %0)
            }
          }
        }
        """
    )


def test_lets_closures_and_references() -> None:
    ref, done, f, a = Var("r"), Var("_"), Var("f"), Var("a", x.type_annotation)
    recursive = Function([a], f(a), attrs={"Inline": 1})
    body = Let(ref, RefCreate(x), Let(done, RefWrite(ref, -x), Let(f, recursive, Tuple([RefRead(ref), f(x), Function([], x)()]))))
    assert pretty_print(Function([x], body, x.type_annotation)) == lines(
        """
        fn (%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
          let %r = ref(%x);
          %0 = negative(%x);
          let %_ = ref_write(%r, %0);
          let %f = fn (%a: Tensor[(2, 3), float32], Inline=1) {
            %f(%a)
          };
          %1 = ref_read(%r);
          %2 = %f(%x);
          %3 = fn () {
            %x
          };
          %4 = %3();
          (%1, %2, %4)
        }
        """
    )


def test_lets_that_are_values_and_operands_stand_in_braces() -> None:
    v, w, u = Var("v"), Var("v"), Var("u", TensorType(()))
    expr = Let(v, Let(w, x, -w), Tuple([Let(u, y, u), v]))
    assert pretty_print(expr) == lines(
        """
        free_var %x: Tensor[(2, 3), float32];
        free_var %y: Tensor[(n), float32];
        let %v = {
          let %v1 = %x;
          negative(%v1)
        };
        %0 = {
          let %u: float32 = %y;
          %u
        };
        (%0, %v)
        """
    )


def test_values_shared_with_a_recursive_body_are_bound_before_it() -> None:
    f, n = Var("f"), Var("n")
    shared = x + x
    assert pretty_print(Let(f, Function([n], f(shared)), f(shared))) == lines(
        """
        free_var %x: Tensor[(2, 3), float32];
        %0 = add(%x, %x);
        let %f = fn (%n) {
          %f(%0)
        };
        %f(%0)
        """
    )


def test_matches_on_tuples() -> None:
    p = Var("p")
    expr = Match(Tuple([x]), [Clause(PatternTuple([PatternVar(p)]), p), Clause(PatternTuple([PatternWildcard(), PatternWildcard()]), x)])
    assert pretty_print(expr) == lines(
        """
        free_var %x: Tensor[(2, 3), float32];
        %0 = (%x,);
        match (%0) {
          (%p,) => {
            %p
          },
          (_, _) => {
            %x
          },
        }
        """
    )


def test_constants_of_several_elements_are_listed_behind_the_text() -> None:
    weights = Constant(np.arange(4, dtype=np.float32).reshape(2, 2))
    ones = Constant(Tensor.splat(1.0, (1024, 1024), "float32"))
    text = astext(Tuple([weights, ones, weights, Constant(weights.data)]))
    assert (
        text
        == lines(
            """
        #[version = "0.0.5"]
        (meta[relay.Constant][0] /* ty=Tensor[(2, 2), float32] */, meta[relay.Constant][1] /* ty=Tensor[(1024, 1024), float32] */, """
            """meta[relay.Constant][0] /* ty=Tensor[(2, 2), float32] */, meta[relay.Constant][0] /* ty=Tensor[(2, 2), float32] */)

        #[metadata]
        {
          "relay.Constant": [
            {"dtype": "float32", "shape": [2, 2], "data": "AAAAAAAAgD8AAABAAABAQA=="},
            {"dtype": "float32", "shape": [1024, 1024], "splat": "AACAPw=="}
          ]
        }
        """
        )
        + "\n"
    )
    assert json.loads(text.split("#[metadata]")[1])


def test_without_metadata_nothing_is_read() -> None:
    def load() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        raise AssertionError("a lazy constant was read")

    lazy = Constant(Tensor.lazy("float32", (2,), load))
    assert (
        astext(lazy, show_meta_data=False)
        == lines(
            """
        #[version = "0.0.5"]
        meta[relay.Constant][0] /* ty=Tensor[(2), float32] */

        /* Metadata section omitted; print it with astext(show_meta_data=True). */
        """
        )
        + "\n"
    )
    assert "omitted" in repr(lazy)


def test_comments_after_expressions_can_be_chosen() -> None:
    expr = Tuple([-x, const(2)])
    text = astext(expr, annotate=lambda node: f"/* {type(node).__name__} */" if not isinstance(node, Constant) else "")
    assert text == lines(
        """
        #[version = "0.0.5"]
        free_var %x: Tensor[(2, 3), float32];
        %0 = negative(%x) /* Call */;
        (%0, 2) /* Tuple */
        """
    )


def test_types_never_end_their_comment() -> None:
    odd = Var("x", TensorType((SymDim.named("*/ /*"),)))
    text = astext(infer_type(Function([odd], -odd)))
    assert '/* ty=Tensor[("* / / *"), float32] */' in text
    assert parse(text.replace("fn (", "def @main("))["main"].params[0].type_annotation == odd.type_annotation


def test_a_constructor_without_fields_is_its_value_by_default() -> None:
    nil, some = Constructor("Nil", [], GlobalTypeVar("T")), Constructor("Some", [TensorType(())], GlobalTypeVar("T"))
    assert pretty_print(Tuple([nil, some, Call(nil, []), Call(some, [x])])) == lines(
        """
        %0 = Nil;
        free_var %x: Tensor[(2, 3), float32];
        %1 = Some(%x);
        (constructor(Nil), Some, %0, %1)
        """
    )


def test_paths_are_not_nodes() -> None:
    expr: Expr = x
    for _ in range(100):
        expr = expr + expr
    assert pretty_print(expr).count("\n") == 100


def test_lets_nest_deep_in_values() -> None:
    expr: Expr = x
    for _ in range(share(4_000, 20_000)):
        expr = Let(Var("v"), expr, x)
    text = astext(expr)
    assert astext(parse_expr(text)) == text


def test_deep_bodies_are_indented_so_far_only() -> None:
    expr: Expr = x
    for _ in range(2000):
        expr = If(c, expr, x)
    text = pretty_print(Function([x, c], expr))
    assert len(text) < 2000 * 5 * 100
    assert max(len(line) - len(line.lstrip()) for line in text.splitlines()) == 80


def test_a_scalar_says_its_type_twice_only_where_types_have_been_inferred() -> None:
    expr = Tuple([const(1), const(2.0, "float16"), const([1, 2])])
    untyped = "(1, 2f16, meta[relay.Constant][0] /* ty=Tensor[(2), int32] */)"
    assert pretty_print(expr).startswith(untyped)
    assert pretty_print(infer_type(expr)).startswith("(1 /* ty=int32 */, 2f16 /* ty=float16 */, meta[relay.Constant][0] /* ty=")
    assert astext(const(42, "int16")) == '#[version = "0.0.5"]\n42i16'
