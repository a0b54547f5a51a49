// The head, the table of rules, the times and order of the passes, and the operators.

function startHead() {
  const { head } = data;
  const title = head.source.split(/[\\/]/).pop() || head.source;
  byId("title").replaceChildren(isolated(title));
  byId("subtitle").replaceChildren(
    ...(head.source === title ? [] : [isolated(head.source), " "]), ...(head.output ? ["became ", isolated(head.output)] : []),
  );
  const card = (label, main, small) =>
    element("div", {}, element("dt", {}, label), element("dd", {}, main, " ", element("small", {}, small)));
  const arrow = (before, after) => (before === after ? String(after) : `${before} \u2192 ${after}`);
  byId("cards").append(
    card("Nodes", arrow(...head.nodes), change(...head.nodes)),
    card(`Estimated cost (${head.cost_model})`, arrow(...(head.in_seconds ? head.costs.map(seconds) : head.cost_texts)), change(...head.costs)),
    card("File", arrow(...head.bytes.map(bytes)), change(...head.bytes)),
    card("Time of Passat", seconds(Object.values(data.stages).reduce((sum, each) => sum + each, 0)), ""),
  );
  const verdict = (state, value) => byId("verdicts").append(element("p", { class: `verdict data ${state}` }, value));
  if (head.kept) {
    verdict("open", `The result is the input: ${head.kept}.`);
  }
  if (head.interrupted) {
    verdict("open", "Interrupted: the result is the best found so far.");
  }
  if (!head.kept) {
    verdict(head.verification, head.verified);
  }
  head.notes.forEach((note) => verdict("open", note));
  if (head.timings.length > 0) {
    const rows = head.timings.map((timing, at) => [
      isolated(at === 0 ? timing.name : `by ${timing.name}`),
      timing.time,
      at === 0 ? "" : `${Math.round(100 * timing.faster)} % of the rounds`,
      timing.chosen ? "chosen" : "",
    ]);
    byId("verdicts").append(plainTable(["Measured program", "Time", "Faster than the input in", ""], rows));
  }
}

function plainTable(titles, rows, numeric = []) {
  const style = (at) => (numeric.includes(at) ? { class: "number" } : {});
  return element("div", { class: "scroll" }, element(
    "table", {},
    element("thead", {}, element("tr", {}, ...titles.map((title, at) => element("th", { scope: "col", ...style(at) }, title)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, at) => element("td", style(at), cell))))),
  ));
}

const RULES_SHOWN = 12;
const RULE_COLUMNS = [
  ["Rule", (rule) => rule.name],
  ["Saving", (rule) => rule.saving],
  ["Places", (rule) => rule.regions],
  ["Nodes in the result", (rule) => rule.made],
  ["Matches", (rule) => rule.matched],
  ["Rejected", (rule) => rule.rejected],
  ["Unions", (rule) => rule.unions],
  ["Time", (rule) => rule.seconds],
];

function startRules() {
  const section = byId("rules");
  const rules = data.rules.filter((rule) => rule.matched || rule.unions || rule.made);
  if (rules.length === 0) {
    section.append(element("p", { class: "empty" }, "No rule matched."));
  } else {
    const body = element("tbody");
    const sorted = { at: 1, down: true, all: false };
    const more = element("button", { type: "button", click: () => {
      sorted.all = true;
      draw();
    } }, `all ${rules.length} rules that matched`);
    const heads = RULE_COLUMNS.map(([title], at) => element(
      "th", { scope: "col", class: at ? "number" : "" }, element("button", { type: "button", click: () => sort(at) }, title),
    ));
    const draw = () => {
      const value = RULE_COLUMNS[sorted.at][1];
      const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
      const order = [...rules].sort((a, b) => compare(value(a), value(b)) * (sorted.down ? -1 : 1) || b.made - a.made || b.unions - a.unions);
      const cut = sorted.all ? order : order.slice(0, RULES_SHOWN);
      body.replaceChildren(...cut.flatMap(ruleRows));
      more.hidden = cut.length === order.length;
      heads.forEach((head, at) => head.setAttribute("aria-sort", at === sorted.at ? (sorted.down ? "descending" : "ascending") : "none"));
      heads.forEach((head, at) => {
        head.firstChild.textContent = RULE_COLUMNS[at][0] + (at === sorted.at ? (sorted.down ? " \u25be" : " \u25b4") : "");
      });
    };
    const sort = (at) => {
      [sorted.down, sorted.at] = [at === sorted.at ? !sorted.down : at > 0, at];
      draw();
    };
    draw();
    section.append(
      element("p", { class: "hint" }, "Saving: the estimated saving of the places that a rule contributed to, split evenly between the rules of each place."),
      element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)),
      more,
    );
  }
  if (data.silent.length > 0) {
    section.append(element(
      "details", {}, element("summary", {}, `${count(data.silent.length, "rule")} matched nothing`),
      element("p", { class: "quiet data" }, data.silent.join(", ")),
    ));
  }
  if (data.remarks.length > 0) {
    section.append(element(
      "details", {}, element("summary", {}, count(data.remarks.length, "remark")),
      element("ul", {}, ...data.remarks.map((remark) => element("li", { class: "data" }, remark))),
    ));
  }
}

/** The row of a rule, and below it a hidden row with the reasons for rejecting its matches. */
function ruleRows(rule) {
  const reasons = element("tr", { hidden: "" }, element(
    "td", { colspan: String(RULE_COLUMNS.length), class: "reasons" },
    element("ul", {}, ...rule.reasons.map(([reason, times]) => element("li", { class: "data" }, `${times}: ${reason}`))),
  ));
  const toggle = (event) => {
    reasons.hidden = !reasons.hidden;
    event.target.setAttribute("aria-expanded", String(!reasons.hidden));
  };
  const rejected = rule.reasons.length === 0 ? String(rule.rejected)
    : element("button", { type: "button", class: "link more", "aria-expanded": "false", click: toggle }, String(rule.rejected));
  const number = (...parts) => element("td", { class: "number" }, ...parts);
  const name = rule.regions > 0 || rule.made > 0 ? ruleLink(rule.name) : isolated(rule.name);
  return [element(
    "tr", {}, element("td", { class: "name" }, name), number(rule.regions > 0 ? gainText(rule.saving) : ""), number(rule.regions || ""),
    number(rule.made === 0 ? "" : `${rule.made} (${percent(rule.share)})`), number(String(rule.matched)), number(rejected),
    number(String(rule.unions)), number(seconds(rule.seconds)),
  ), reasons];
}

function gainText(value) {
  return Math.abs(value) < 1e-12 ? "0" : `${value < 0 ? "\u2212" : ""}${cost(Math.abs(value))}`;
}

function percent(share) {
  return share > 0 && share < 0.01 ? "< 1 %" : `${Math.round(100 * share)} %`;
}

function startPasses() {
  const times = element("div", { class: "tree" });
  const total = data.passes.reduce((sum, each) => sum + (each.depth === 0 ? each.seconds : 0), 0) || 1;
  const open = [times];
  data.passes.forEach((each, at) => {
    const bar = element("i");
    bar.style.width = `${Math.min(100, (100 * each.seconds) / total)}%`;
    const counters = Object.entries(each.counters).map(([key, amount]) => `${Number(amount.toPrecision(6))} ${key}`).join(", ");
    const row = element(
      "span", { class: "row", title: counters }, isolated(each.name), element("span", { class: "number" }, each.stage ? "" : seconds(each.seconds)),
      element("span", { class: "track" }, each.stage ? "" : bar),
    );
    open.length = each.depth + 1;
    if ((data.passes[at + 1]?.depth ?? 0) > each.depth) {
      const inner = element("div", { class: "inner" });
      open[each.depth].append(element("details", { open: "" }, element("summary", {}, row), inner));
      open.push(inner);
    } else {
      open[each.depth].append(element("div", { class: "leaf" }, row));
    }
  });
  const stages = Object.entries(data.stages).filter(([stage]) => stage !== "passes").map(([stage, value]) => `${stage} ${seconds(value)}`);
  const steps = data.plan.steps.map(([number, label, why]) => element(
    "li", number ? {} : { class: "off" }, element("span", { class: "number" }, number || "\u2013"), element("b", {}, isolated(label)), " ",
    element("span", { class: "quiet data" }, number ? why : `does not run: ${why}`),
  ));
  const order = element("div", {}, element("h3", {}, "Order and reasons"), element("ol", { class: "plan" }, ...steps));
  if (data.plan.more) {
    order.append(element("p", { class: "quiet" }, `The first ${data.plan.steps.length} steps.`));
  }
  data.plan.notes.forEach((note) => order.append(element("p", { class: "verdict open data" }, note)));
  if (data.plan.svg) {
    order.append(element(
      "details", {}, element("summary", {}, "As a drawing"),
      element("img", { alt: "The order of the passes", src: `data:image/svg+xml;base64,${data.plan.svg}` }),
    ));
  }
  byId("passes").append(element(
    "div", { class: "pair" },
    element("div", {}, element("h3", {}, "Times"), times, element("p", { class: "quiet" }, `Other stages: ${stages.join(", ")}.`)), order,
  ));
}

function startOperators() {
  const changed = data.head.operators.filter(([, before, after]) => before !== after);
  const same = data.head.operators.filter(([, before, after]) => before === after);
  const sign = (value) => (value > 0 ? `+${value}` : value < 0 ? String(value) : "");
  const row = ([label, before, after]) => [isolated(label), String(before), String(after), sign(after - before)];
  const titles = ["ONNX operator", "Before", "After", ""];
  const section = byId("operators");
  section.append(
    changed.length > 0
      ? plainTable(titles, changed.map(row), [1, 2, 3])
      : element("p", { class: "empty" }, "The number of nodes of each operator is unchanged."),
  );
  if (same.length > 0) {
    const title = `${count(same.length, "operator")} unchanged`;
    section.append(element("details", {}, element("summary", {}, title), plainTable(titles, same.map(row), [1, 2, 3])));
  }
}
