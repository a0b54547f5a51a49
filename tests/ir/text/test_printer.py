"""Golden texts of printed programs, and the notation of every kind of value."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.attrs import Attrs
from passat.ir.expr import (
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
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
from passat.ir.text import astext, parse, pretty_print
from passat.ir.text.literals import show_scalar, show_string
from passat.ir.text.types import show_type
from passat.ir.types import GlobalTypeVar, TensorType

x, y, c = var("x", shape=(2, 3)), var("y", shape=("n",)), var("c", "bool")


def lines(text: str) -> str:
    """A golden text, without the line break and the indentation that it has in this file."""
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


def test_a_node_stands_in_the_innermost_body_around_its_uses() -> None:
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


def test_what_a_recursive_function_shares_with_its_body_stands_before_it() -> None:
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

        /* The metadata section is left out; astext(show_meta_data=True) prints it. */
        """
        )
        + "\n"
    )
    assert "left out" in repr(lazy)


def test_what_stands_behind_expressions_can_be_chosen() -> None:
    expr = Tuple([-x, const(2)])
    text = astext(expr, annotate=lambda node: f"/* {type(node).__name__} */" if not isinstance(node, Constant) else "")
    assert (
        text
        == lines(
            """
        #[version = "0.0.5"]
        free_var %x: Tensor[(2, 3), float32];
        %0 = negative(%x) /* Call */;
        (%0, 2) /* Tuple */
        """
        )
        + "\n"
    )


def test_types_never_end_their_comment() -> None:
    odd = Var("x", TensorType((SymDim.named("*/ /*"),)))
    text = astext(infer_type(Function([odd], -odd)))
    assert '/* ty=Tensor[("* / / *"), float32] */' in text
    assert parse(text.replace("fn (", "def @main("))["main"].params[0].type_annotation == odd.type_annotation


def test_names_are_unique_and_quoted_where_they_must_be() -> None:
    hints = ["x", "x", "x1", "x", "input:0", "a/b", "/a", "1", "", "a.b", 'q"\n', "/", "a//b", "é", "_"]
    variables = [Var(hint) for hint in hints]
    text = pretty_print(Function(variables, GlobalVar("g 1")()))
    assert text.startswith(
        'fn (%x, %x1, %x11, %x2, %"input:0", %a/b, %/a, %"1", %"", %"a.b", %"q\\"\\n", %"/", %"a//b", %"é", %_) {\n  @"g 1"()'
    )


def test_operators_whose_names_are_no_words() -> None:
    assert pretty_print(Call(get_op("onnx.my-domain.Op"), [])).startswith('"onnx.my-domain.Op"(')
    assert pretty_print(get_op("nn.relu")) == "nn.relu"


def test_attributes_at_their_default_are_left_out() -> None:
    call = get_op("nn.softmax")(x, axis=-1)
    assert "softmax(%x)" in repr(call)
    assert "softmax(%x, axis=1)" in repr(get_op("nn.softmax")(x, axis=1))
    assert "leaky_relu(%x)" in repr(get_op("nn.leaky_relu")(x, alpha=0.01))
    assert "leaky_relu(%x, alpha=-0f)" in repr(get_op("nn.leaky_relu")(x, alpha=-0.0))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (10**30, "1" + "0" * 30),
        (1.0, "1f"),
        (0.1, "0.1f64"),
        (float(np.float32(0.1)), "0.1f"),
        (1e-45, "1e-45f64"),
        (1e300, "1e+300f64"),
        (float("inf"), "inff"),
        (float("-inf"), "-inff"),
        (float("nan"), "nanf"),
        (-0.0, "-0f"),
        ('a "b" \\ \n é', '"a \\"b\\" \\\\ \\n é"'),
        ("\udc80", '"\\udc80"'),
        (b'\x00a"\\\xff', 'b"\\x00a\\x22\\x5c\\xff"'),
        ((), "[]"),
        ((1,), "[1]"),
        ((1, (2.0, ()), "x"), '[1, [2f, []], "x"]'),
        ((SymDim.named("n") * 2, SymDim.named("a b") + SymDim.named("n") * -1), '[dim(2*n), dim("a b" - n)]'),
        (Tensor.dense(np.int64(1)), "meta[relay.Constant][0]"),
    ],
)
def test_attributes(value: object, text: str) -> None:
    assert pretty_print(Call(GlobalVar("f"), [], Attrs(a=value))).startswith(f"@f(a={text})")


def test_names_of_attributes() -> None:
    assert pretty_print(Call(GlobalVar("f"), [], {"let": 1, "odd name": 2, "a.b": 3})) == '@f(let=1, "odd name"=2, a.b=3)'


def test_things_without_a_notation_can_at_least_be_looked_at() -> None:
    text = astext(Call(GlobalVar("f"), [], {"what": frozenset({1})}))
    assert "@f(what=meta[frozenset][0])" in text
    assert '"frozenset": [\n    {"repr": "frozenset({1})"}\n  ]' in text

    class Strange(Expr):
        pass

    with pytest.raises(TypeError, match="Strange has no form in the text format"):
        astext(Tuple([Strange()]))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int32(-1), "-1"),
        (np.int64(1), "1i64"),
        (np.uint8(255), "255u8"),
        (np.float32(0.1), "0.1f"),
        (np.float32(16777217.0), "1.6777216e+07f"),
        (np.float64(0.1), "0.1f64"),
        (np.float16(0.1), "0.1f16"),
        (np.float32(np.inf), "inff"),
        (np.float64(-np.inf), "-inff64"),
        (np.float16(np.nan), "nanf16"),
        (np.array(0x7FC00001, np.uint32).view(np.float32), None),
        (np.bool_(True), "True"),
        (np.complex64(1), None),
        (np.array("text", np.object_), None),
        (np.zeros(1), None),
    ],
)
def test_scalars(value: object, text: str | None) -> None:
    assert show_scalar(Tensor.dense(value)) == text  # type: ignore[arg-type]  # scalars of NumPy


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (TensorType((3,)), "Tensor[(3), float32]"),
        (TensorType((SymDim.named("n"), SymDim.named("let"))), "Tensor[(n, let), float32]"),
        (TensorType(((SymDim.named("n") + 1) // 2 * 3 - 1,)), 'Tensor[(3*"(n + 1)//2" - 1), float32]'),
        (GlobalTypeVar("onnx.Sequence"), "onnx.Sequence"),
        (GlobalTypeVar("float32"), '"float32"'),
        (GlobalTypeVar("my type"), '"my type"'),
    ],
)
def test_types(type_: TensorType, text: str) -> None:
    assert show_type(type_) == text


def test_a_constructor_without_fields_is_its_value_unless_said_otherwise() -> None:
    nil, some = Constructor("Nil", [], GlobalTypeVar("T")), Constructor("Some", [TensorType(())], GlobalTypeVar("T"))
    assert pretty_print(Tuple([nil, some, Call(nil, []), Call(some, [x])])) == lines(
        """
        %0 = Nil;
        free_var %x: Tensor[(2, 3), float32];
        %1 = Some(%x);
        (constructor(Nil), Some, %0, %1)
        """
    )


@settings(deadline=None, max_examples=100)
@given(st.text())
def test_strings_are_json(text: str) -> None:
    assert json.loads(show_string(text)) == text


def test_paths_are_no_nodes() -> None:
    expr: Expr = x
    for _ in range(100):
        expr = expr + expr
    assert pretty_print(expr).count("\n") == 100


def test_deep_bodies_are_indented_so_far_only() -> None:
    expr: Expr = x
    for _ in range(2000):
        expr = If(c, expr, x)
    text = pretty_print(Function([x, c], expr))
    assert len(text) < 2000 * 5 * 100
    assert max(len(line) - len(line.lstrip()) for line in text.splitlines()) == 80
