"""Which required passes run before a pass: as few as may be, in an order in which all that is required holds when it is needed."""

from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from passat.passmgr.context import PassContext
from passat.passmgr.passes import Pass
from passat.passmgr.planning.dependencies import DEPTH_LIMIT, Node, PassDependencyError, Requirements, State

RUNS_LIMIT: Final = 1000
"""Repeated runs of required passes before one pass beyond which the search for an order is given up."""

STATES_LIMIT: Final = 5000
"""Combinations of established passes beyond which a search for an order is given up."""


class _Outcome(NamedTuple):
    """What a pipeline leaves of what was established before, and what it establishes."""

    kept: frozenset[str]
    ran: Mapping[str, frozenset[str]]


class Resolver:
    """Finds the required passes that have to run, for the planner of one pipeline in one context.

    It simulates runs on copies of the state. What a required pipeline does is found out once for each state in which it begins: pipelines
    that require pipelines would else be simulated a number of times that doubles with every level.
    """

    def __init__(self, ctx: PassContext, requirements: Requirements) -> None:
        self._ctx = ctx
        self._requirements = requirements
        self._outcomes: dict[tuple[Node, frozenset[str]], _Outcome] = {}

    def choose(self, node: Node, label: str, state: State, depth: int) -> list[str]:
        """The required passes that run before a pass, in order. Raises PassDependencyError where no order satisfies it."""
        now = state.copy()
        chosen: list[str] = []
        seen: set[frozenset[str]] = set()
        disturbed = False
        while order := self._requirements.order(node, now):
            if now.names in seen or len(chosen) - len(set(chosen)) > RUNS_LIMIT:
                found = self._searched(node, state, depth)
                if found is None:
                    raise self._requirements.undo_each_other(label, chosen)
                return found
            seen.add(now.names)
            for name in order:
                if not self._are_met(name, now):
                    break  # a pass just chosen undid it: look again
                disturbed |= self._run(name, now, "", depth)
                chosen.append(name)
        return self._pruned(node, chosen, state, depth) if disturbed else chosen

    def _searched(self, node: Node, state: State, depth: int) -> list[str] | None:
        """The fewest runs after which what a pass requires holds, or None: a search, breadth first, through what can hold at one time.

        For passes that undo each other, where the declared order leads back to where it began.
        """
        names = self._requirements.order(node, State())
        waiting: deque[tuple[State, list[str]]] = deque([(state, [])])
        seen = {state.names}
        while waiting and len(seen) <= STATES_LIMIT:
            now, runs = waiting.popleft()
            for name in names:
                if not self._are_met(name, now):
                    continue
                after = now.copy()
                self._run(name, after, "", depth)
                if self._are_met(node, after):
                    return [*runs, name]
                if after.names not in seen:
                    seen.add(after.names)
                    waiting.append((after, [*runs, name]))
        return None

    def _are_met(self, node: Node, state: State) -> bool:
        return all(name in state for name in self._requirements.requires(node))

    def _run(self, name: str, state: State, step: str, depth: int) -> bool:
        """Runs a required pass on a state. Returns whether that may make other runs superfluous."""
        pass_ = self._requirements.pass_of(name)
        if pass_.members is None:
            return state.ran(name, pass_.info, step, as_requirement=True)
        outcome = self._outcome(name, pass_, state, depth + 1)
        state.replace(outcome.kept, outcome.ran, step)
        state.finished(name, pass_.info.provides, step)
        return True

    def _outcome(self, node: Node, group: Pass, state: State, depth: int) -> _Outcome:
        """What a required pipeline does to a state."""
        if depth > DEPTH_LIMIT:
            raise too_deep()
        key = (node, state.names)
        found = self._outcomes.get(key)
        if found is not None:
            return found
        now = state.copy()
        now.steps = dict.fromkeys(now.steps, "before")
        for member in group.members or ():
            if not self._ctx.pass_enabled(member.info):
                continue
            for name in self.choose(id(member), member.info.name, now, depth):
                self._run(name, now, "", depth)
            if member.members is None:
                now.ran(member.info.name, member.info, "", as_requirement=True)
            else:
                inner = self._outcome(id(member), member, now, depth + 1)
                now.replace(inner.kept, inner.ran, "")
                now.finished(member.info.name, member.info.provides, "")
        kept = frozenset(name for name, step in now.steps.items() if step)
        outcome = _Outcome(kept, {name: now.facts(name) for name, step in now.steps.items() if not step})
        self._outcomes[key] = outcome
        return outcome

    def _pruned(self, node: Node, chosen: list[str], state: State, depth: int) -> list[str]:
        """Without the runs whose work still held, then without those whose work was undone, or repeated, before anyone relied on it."""
        groups = any(self._requirements.pass_of(name).members is not None for name in chosen)
        while True:
            now = state.copy()
            held: list[int] = []
            used: set[str] = set()
            for at, name in enumerate(chosen):
                if name in now:
                    held.append(at)
                used.update(now.steps[required] for required in self._requirements.requires(name))
                self._run(name, now, f"#{at}", depth)
            used.update(now.steps[required] for required in self._requirements.requires(node))
            drop = held or [at for at in range(len(chosen)) if f"#{at}" not in used]
            # What one superfluous pipeline established may be what makes another superfluous: then only one of them can go.
            candidates = [set(drop), *({at} for at in drop)] if drop else []
            if groups:  # a pipeline may run what has been relied on, but would have been in time for that as well
                candidates += [{at} for at, name in enumerate(chosen) if now.steps.get(name, f"#{at}") != f"#{at}"]
            for gone in candidates:
                shorter = [name for at, name in enumerate(chosen) if at not in gone]
                if self._is_enough(node, shorter, state, depth):
                    chosen = shorter
                    break
            else:
                return chosen

    def _is_enough(self, node: Node, runs: list[str], state: State, depth: int) -> bool:
        now = state.copy()
        for name in runs:
            if not self._are_met(name, now):
                return False
            self._run(name, now, "", depth)
        return self._are_met(node, now)


def too_deep() -> PassDependencyError:
    """The error for pipelines that nest through what their members require."""
    return PassDependencyError(f"a pipeline contains itself through what its members require, or nests more than {DEPTH_LIMIT} deep")
