"""`Sequential`, a pass that runs a list of passes, and pipeline text:

InferType,FoldConstant,Saturate{rounds=8},Sequential{opt_level=2}(A,B)
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeGuard, Unpack

from passat.ir.argument_checks import kind
from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.passmgr.context import PassContext
from passat.passmgr.options import WORDS, PassOptionError, Word, convert, name_hint, show_options, show_word
from passat.passmgr.pass_info import PipelineInfo, Place
from passat.passmgr.passes import Pass
from passat.passmgr.planning.dependencies import DEPTH_LIMIT, Requirements
from passat.passmgr.planning.plan import Plan, make_plan
from passat.passmgr.registry import UnknownPassError, entry_of, get_entry, name_and_options, registry_version

_PLANS_KEPT: Final = 64


class Sequential(Pass):
    """Runs passes in list order, each if the context enables it (`PassContext.pass_enabled`) and after the passes it requires.

    It is a pass itself: instruments see it, and inside another Sequential its own level and `required` apply. A direct call ignores them.

    The transitive requirements of a member run before it, at any level and even if disabled. They run again only after a later pass undoes
    them (see PassInfo). With `PassContext(config={"passmgr.resolve": "relay"})` requirements are resolved as in TVM: one level, before
    every member. Members always run, in the given order. `plan()` shows what will run and why.

    Raises TypeError unless given a list of passes, and UnknownPassError and PassDependencyError for requirements that cannot be satisfied.

    >>> Sequential([], name="nothing")
    Run Sequential pass: nothing at the optimization level 0. The passes will be executed are: []
    """

    members: tuple[Pass, ...]

    def __init__(
        self,
        passes: Iterable[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
        **place: Unpack[Place],
    ) -> None:
        if passes is not None and not isinstance(passes, (list, tuple)):
            raise TypeError("passes must be a list of Pass objects.")
        for pass_ in passes or ():
            if not isinstance(pass_, Pass):
                hint = f"; did you mean {pass_.__name__}()?" if callable(pass_) and hasattr(pass_, "__name__") else ""
                raise TypeError(f"passes must be a list of Pass objects. {pass_!r} is not one{hint}")
        self.info = PipelineInfo(opt_level, name, required, traceable, **place)
        self.members = tuple(passes or ())
        self.depth: int = 1 + max((pass_.depth for pass_ in self.members if isinstance(pass_, Sequential)), default=0)
        if self.depth > DEPTH_LIMIT:
            raise ValueError(f"pipelines are nested more than {DEPTH_LIMIT} levels deep")
        self._joint_options = tuple(dict.fromkeys(pass_.joint_option for pass_ in self.members if pass_.joint_option))
        self._requirements: tuple[int, Requirements] | None = None
        self._plans: dict[tuple[object, ...], Plan] = {}
        if _resolve(PassContext.current()) == "graph":
            make_plan(name, self.members, self._require(), _EVERYTHING_ON)  # reports errors now rather than at run time

    def __init_subclass__(cls) -> None:
        """Raises TypeError for a subclass that overrides `run`: the plan of an enclosing pipeline contains the members only."""
        if cls.run is not Sequential.run:
            raise TypeError(f"{cls.__name__} overrides run, which enclosing pipelines do not call; derive from ModulePass")

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The members in order."""
        return self.members

    def plan(self, ctx: PassContext | None = None) -> Plan:
        """Returns what a call in a context (by default the current one) will run, in which order, and why."""
        if ctx is None:
            ctx = PassContext.current()
        if not isinstance(ctx, PassContext):
            raise TypeError(f"a plan is made for a PassContext, not for {ctx!r}")
        resolve = _resolve(ctx)
        joint = [ctx.get_config(option) for option in self._joint_options]
        key = (ctx.opt_level, resolve, registry_version(), *joint, None, *ctx.disabled_pass, None, *ctx.required_pass)
        plan = self._plans.get(key)
        if plan is None:
            plan = make_plan(self.info.name, self.members, self._require() if resolve == "graph" else None, ctx)
            if len(self._plans) >= _PLANS_KEPT:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Executes the plan."""
        return self.plan(ctx).run(mod, ctx)

    def _require(self) -> Requirements:
        version = registry_version()
        if self._requirements is None or self._requirements[0] != version:
            requirements = Requirements(self.members)
            self._requirements = (registry_version(), requirements)  # the lookup of names may have registered passes
        return self._requirements[1]

    def __getstate__(self) -> dict[str, object]:
        # Cached plans are keyed by the identity of the members, which copies do not share.
        return {**vars(self), "_requirements": None, "_plans": {}}

    def __str__(self) -> str:
        names = "".join(f"{pass_.info.name} " for pass_ in self.members)
        head = f"Run Sequential pass: {self.info.name} at the optimization level {self.info.opt_level}"
        return f"{head}. The passes will be executed are: [{names}]"


_EVERYTHING_ON: Final = PassContext(opt_level=1 << 30)


def _resolve(ctx: PassContext) -> str:
    return ctx.config.get("passmgr.resolve", "graph")  # type: ignore[no-any-return]  # checked when the context was made


_TOKEN: Final = re.compile(
    r"""(?:\s|\#[^\n]*+)*+(?:(?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf)(?![\w.\-]))
    |(?P<word>[A-Za-z_][\w.\-]*)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<mark>[{}()\[\],=])|(?P<end>$)|(?P<other>.))""",
    re.VERBOSE | re.DOTALL,
)
TEXT_LIMIT: Final = 10_000_000
"""Maximum length of pipeline text."""

_GROUP: Final = "Sequential"
_GROUP_OPTIONS: Final[dict[str, object]] = {"opt_level": int, "name": str, "required": tuple[str, ...]}


class PipelineError(PassatError, ValueError):
    """Pipeline text has an error. The message shows the line and the column; `line` and `column` count from 1."""

    exit_code = 2

    def __init__(self, message: str, text: str, at: int) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - (text.rfind("\n", 0, at) + 1) + 1
        shown = text.split("\n")[self.line - 1]
        start = max(0, self.column - 60)
        shown = ("..." if start else "") + shown[start : start + 120]
        place = f"line {self.line}, column {self.column}" if "\n" in text else f"column {self.column}"
        super().__init__(f"{message} ({place})\n  {shown}\n  {' ' * (self.column - 1 - start + (3 if start else 0))}^")


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def parse_pipeline(text: str) -> Sequential:
    """Parses pipeline text. Passes are looked up in the registry; options are checked against their annotations.

    Raises PipelineError with the location of a syntax error, an unknown pass (with similar names), or an option that is unknown, missing or
    invalid.

    >>> print(pipeline_text(parse_pipeline("InferType, Sequential{opt_level=2}( InferType )")))
    InferType,Sequential{opt_level=2}(InferType)
    """
    kind(str, "the text of a pipeline")("text", text)
    return _Parser(text).parse()


def pipeline_text(pass_: Pass) -> str:
    """Prints a pass or pipeline so that `parse_pipeline` reads it back. Default options are omitted.

    Raises ValueError for option values without a text form.
    """
    if _is_group(pass_) and not _group_options(pass_) and not (len(pass_.members) == 1 and _is_group(pass_.members[0])):
        return ",".join(map(_item_text, pass_.members))
    return _item_text(pass_)


def _item_text(pass_: Pass) -> str:
    if _is_group(pass_):
        return f"{_GROUP}{show_options(_group_options(pass_))}({','.join(map(_item_text, pass_.members))})"
    name, options = name_and_options(pass_)
    return (json.dumps(name) if name == _GROUP else show_word(name)) + show_options(options)


def _is_group(pass_: Pass) -> TypeGuard[Sequential]:
    """Whether a pass is a Sequential without a registered name."""
    return isinstance(pass_, Sequential) and "made_by" not in vars(pass_) and entry_of(pass_) is None


def _group_options(group: Sequential) -> dict[str, object]:
    info = group.info
    options: dict[str, object] = {"opt_level": info.opt_level, "name": info.name, "required": info.required}
    defaults = {"opt_level": 0, "name": "sequential", "required": ()}
    return {name: value for name, value in options.items() if value != defaults[name]}


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > TEXT_LIMIT:
            raise PipelineError(f"the pipeline has {len(text):,} characters; the maximum is {TEXT_LIMIT:,}", text, 0)
        self.text = text
        self.tokens = _tokens(text)
        self.token = next(self.tokens)

    def parse(self) -> Sequential:
        items = self.items(0)
        if self.token.kind != "end":
            raise self.error("expected a ',' or the end here")
        if len(items) == 1 and _is_group(items[0]):
            return items[0]
        return self.group(items, {}, 0)

    def items(self, depth: int) -> list[Pass]:
        if self.token.kind == "end" or self.token.text == ")":
            return []
        items = [self.item(depth)]
        while self.accept(","):
            items.append(self.item(depth))
        return items

    def item(self, depth: int) -> Pass:
        name = self.name("the name of a pass")
        label = self.content(name)
        options, places = self.options(0) if self.accept("{") else ({}, {})
        if name.text == _GROUP:
            if depth >= DEPTH_LIMIT - 1:
                raise PipelineError(f"pipelines are nested more than {DEPTH_LIMIT} levels deep", self.text, name.at)
            self.demand("(")
            items = self.items(depth + 1)
            self.demand(")")
            return self.group(items, self.checked_group_options(options, places), name.at)
        try:
            return get_entry(label).make(options)
        except UnknownPassError as error:
            raise PipelineError(str(error), self.text, name.at) from None
        except PassOptionError as error:
            raise PipelineError(str(error), self.text, places.get(error.option or "", name.at)) from None

    def group(self, items: list[Pass], options: dict[str, object], at: int) -> Sequential:
        try:
            return Sequential(items, **options)  # type: ignore[arg-type]  # checked against _GROUP_OPTIONS
        except (UnknownPassError, PassOptionError, ValueError) as error:
            raise PipelineError(str(error), self.text, at) from error

    def checked_group_options(self, options: dict[str, object], places: dict[str, int]) -> dict[str, object]:
        for name, value in options.items():
            if name not in _GROUP_OPTIONS:
                raise PipelineError(f"{_GROUP} has no option {name!r}; {name_hint(name, _GROUP_OPTIONS)}", self.text, places[name])
            try:
                options[name] = convert(value, _GROUP_OPTIONS[name])
            except TypeError as error:
                raise PipelineError(f"option {name} of {_GROUP}: {error}", self.text, places[name]) from None
        return options

    def options(self, depth: int) -> tuple[dict[str, object], dict[str, int]]:
        options: dict[str, object] = {}
        places: dict[str, int] = {}
        while not self.accept("}"):
            if options:
                self.demand(",", "a ',' or a '}'")
            token = self.name("the name of an option")
            name = self.content(token)
            if name in options:
                raise PipelineError(f"the option {name} is given twice", self.text, token.at)
            self.demand("=")
            options[name] = self.value(depth)
            places[name] = token.at
        return options, places

    def value(self, depth: int) -> object:
        token = self.token
        if token.kind == "mark" and token.text in "[{" and depth >= DEPTH_LIMIT:
            raise PipelineError(f"lists and options are nested more than {DEPTH_LIMIT} levels deep", self.text, token.at)
        if self.accept("["):
            values: list[object] = []
            while not self.accept("]"):
                if values:
                    self.demand(",", "a ',' or a ']'")
                values.append(self.value(depth + 1))
            return tuple(values)
        if self.accept("{"):
            return self.options(depth + 1)[0]
        if token.kind not in ("number", "word", "string"):
            raise self.error("expected a value here")
        self.token = next(self.tokens)
        if token.kind == "number":
            return self.number(token)
        return Word(token.text) if token.kind == "word" and token.text.lower() in WORDS else self.content(token)

    def number(self, token: _Token) -> int | float:
        if not re.fullmatch(r"[+-]?\d+", token.text):
            return float(token.text)
        try:
            return int(token.text)
        except ValueError:  # Python limits the number of digits
            raise PipelineError("an integer with too many digits", self.text, token.at) from None

    def name(self, wanted: str) -> _Token:
        token = self.token
        if token.kind not in ("word", "string"):
            raise self.error(f"expected {wanted} here")
        self.token = next(self.tokens)
        return token

    def content(self, token: _Token) -> str:
        """The content of a word or a string."""
        if token.kind == "word":
            return token.text
        try:
            return str(json.loads(token.text, strict=False))
        except ValueError:
            raise PipelineError("a string that is not valid JSON", self.text, token.at) from None

    def accept(self, mark: str) -> bool:
        if self.token.kind == "mark" and self.token.text == mark:
            self.token = next(self.tokens)
            return True
        return False

    def demand(self, mark: str, wanted: str = "") -> None:
        if not self.accept(mark):
            raise self.error(f"expected {wanted or repr(mark)} here")

    def error(self, message: str) -> PipelineError:
        found = "but the text ends" if self.token.kind == "end" else f"not {self.token.text!r}"
        return PipelineError(f"{message}, {found}", self.text, self.token.at)


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        yield _Token(kind, found[kind], found.start(kind))
