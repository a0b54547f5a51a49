"""`passat.optimize`: a model in, an optimised and verified model out."""

import os
from collections.abc import Iterable, Mapping
from typing import Any as AnyValue
from typing import Literal

from passat.arguments import RulesLike, check_arguments, read_rules
from passat.ir.collector import collector_paused
from passat.optimization import Optimization, Progress, Wishes
from passat.passmgr import PassInstrument
from passat.pipelines import Passes
from passat.result import Result
from passat.rules.cost import CostModel, CostName
from passat.rules.engine.interruption import interruptible
from passat.runner import custom_operators
from passat.source import ModelLike
from passat.verify import comparing


def optimize(
    model: ModelLike,
    *,
    passes: Passes = None,
    rules: RulesLike = (),
    opt_level: int | None = None,
    verify: bool = True,
    allow_unverified: bool = False,
    inputs: Mapping[str, AnyValue] | str | os.PathLike[str] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    custom_ops: Iterable[str | os.PathLike[str]] = (),
    time_limit: float | None = None,
    config: Mapping[str, AnyValue] | None = None,
    cost: CostName | CostModel | None = None,
    choose: Literal["cost", "time"] = "cost",
    candidates: int = 4,
    opset: int | None = None,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    reproducer: str | os.PathLike[str] | None = None,
    instruments: Iterable[PassInstrument] = (),
    record: bool = False,
    explain: bool = False,
    certificate: bool = False,
) -> Result:
    """Optimises an ONNX model, which stays as it is, and compares the result with it on random inputs.

    Inside a `with PassContext(...)` the passes run with what that says: its level where none is given here, each key of its config that is
    not given here, its `disabled_pass`, `required_pass`, diagnostic context and instruments. It is told the statistics
    as well. Checks of the result, and reproducers, go by the same settings.

    * `model`: a ModelProto, the path of a model, its bytes, or a binary file object.
    * `passes`: the pipeline, as text (`"FoldConstant,SimplifyExpr"`), or as a list of passes and names; by default Passat's own.
      Those whose level is above `opt_level` do not run; that is the level of the context around the call (a PassContext has level 2
      unless told otherwise), and 3 where there is none.
    * `rules`: rule sets of your own, and rule files by their paths. They run before and after the default pipeline; in `passes` they can
      be named.
    * `verify`: whether to check the result with `onnx.checker` and to run both models on ONNX Runtime. `allow_unverified`: whether a
      result comes back although nothing could be compared.
    * `inputs`: inputs of your own that both models are run on too: arrays by name, or a file that `numpy.savez` has written. `rtol`,
      `atol`: floating-point values may differ by `atol + rtol * |expected|`, and not by what rounding explains.
    * `custom_ops`: shared libraries of custom operators, which ONNX Runtime loads and executes. Without them, a model is compared in parts.
    * `time_limit`: seconds for all saturation together; when they are over, the best so far is taken.
    * `cost`: what makes a program cheaper, also for the final choice: "roofline" (estimated seconds), "nodes" (the number of calls),
      "measured" (seconds of each operator on ONNX Runtime), or an object with a method `call(op, types, result, attrs)`.
    * `choose`: what decides in the end, the "cost", or the "time" on ONNX Runtime, of at most so many `candidates` and the input.
    * `opset`: the ONNX opset of the result, where that is later than the model's: it is converted before anything else, and passes make
      operators that come with it.
    * `config`: options of the pass context (`PassContext.list_configs()`); `seed`: of the random inputs.
    * `folder`: where the external data of a ModelProto lies; `progress` is called with what begins now.
    * `instruments`: run around the passes, such as `passat.passmgr.PrintIRChanged()`, before those of the context around the call; when
      the pipeline runs again for a check they do not, but the passes that they vetoed do not run either.
    * `reproducer`: a folder that is written when a pass raises, and that `passat replay` runs again.
    * `explain`: the metadata of the result's nodes says where they come from (`Result.explain`); `certificate`: the result comes with a
      proof that it computes the same (`Result.certificate`). Both want `choose="cost"`, and as for `record`, functions are taken whole.
    * `record`: keeps all that rules did, for `result.write_report` and for the full statistics of rules in the report. Functions are then
      saturated whole.

    A result that is not cheaper than the input is replaced by it, and the report says so; what rules lower is dearer on purpose. Ctrl-C
    ends the search with the best so far, which is the input where no pass has run yet (`report.interrupted`). A second one, or one while
    the result is checked and verified, ends the call.

    Raises OnnxError for a model that cannot be read, PipelineError for a pipeline, RuleError and RuleFileError for rules,
    AttributeError for options, PassError where a pass raises, VerifyError without ONNX Runtime, MismatchError where the values differ,
    UnverifiedError where nothing could be compared, InputsError, CustomOpsError, ReproducerError for a folder that cannot be one,
    TypeError and ValueError for other arguments that make no sense.
    """
    check_arguments(locals())
    sets, files = read_rules(rules)
    if choose == "time" and (explain or certificate):
        raise ValueError("choose='time' tries several programs; what came of one is explained and certified with choose='cost'")
    options = dict(config or {})
    if time_limit is not None:
        options["rules.time_limit"] = float(time_limit)
    if cost is not None:
        options["rules.cost"] = cost
    wishes = Wishes(record=record, explain=explain, certificate=certificate)
    how = comparing(seed, inputs, rtol, atol)
    with custom_operators(tuple(custom_ops)):
        run = Optimization(opt_level, options, how, wishes, progress)
        with collector_paused():  # most of what is made lives until the end
            with interruptible() as asked:
                run.read(model, folder, opset)
                run.run(passes, sets, tuple(instruments), reproducer, files)
                run.decide(candidates if choose == "time" else 0)
            run.report.interrupted = asked.requested
            run.check_form(unchanged=verify)
            run.write_down()
        if verify:
            run.verify(required=not allow_unverified)
    return run.result
