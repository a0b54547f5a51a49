// Details of the chosen change or node.

const USERS_SHOWN = 30;
const WHAT_SHOWN = 12;

function showDetailsOfChange(change, place) {
  const rows = element("dl");
  const row = (title, ...parts) => rows.append(element("div", {}, element("dt", {}, title), element("dd", {}, ...parts)));
  const [before, after] = place.costs;
  row("Estimated cost here", `${cost(before)} \u2192 ${cost(after)}`);
  if (place.what.length > 0) {
    row("Changed", element("ul", {}, ...place.what.slice(0, WHAT_SHOWN).map((each) => element("li", { class: "data" }, each))));
  }
  if (place.rules.length > 0) {
    row(place.rules.length === 1 ? "Rule" : "Rules", ...separated(place.rules.map(ruleLink)));
  } else {
    row("Why", change.other.length > 0 ? isolated(change.other.join(", ")) : "no node of the result needs these values");
  }
  if (place.into.length > 0) {
    row("Read instead", element("ul", {}, ...place.into.map((node) => element("li", {}, nodeLink("after", node)))));
  }
  byId("details").replaceChildren(rows);
}

/** Parts with commas between them. */
function separated(parts) {
  return parts.flatMap((part, at) => (at === 0 ? [part] : [", ", part]));
}

function ruleLink(rule) {
  return element("button", { type: "button", class: "link", click: () => showRule(rule) }, isolated(rule));
}

function showDetails(side, node) {
  const graph = data.graphs[side];
  const rows = element("dl");
  const row = (title, ...parts) => rows.append(element("div", {}, element("dt", {}, title), element("dd", {}, ...parts)));
  const line = (title, value) => {
    if (value) {
      row(title, isolated(value));
    }
  };
  row("State", element("span", { class: `status ${STATES[side][graph.state[node]]}` }, `${stateText(side, node)} (${side})`));
  line("Name", text(graph.name[node]));
  line("Outputs", graph.outputs[node].map(text).join(", "));
  line("Type", text(graph.type[node]));
  line("Attributes", text(graph.attrs[node]));
  line("Estimated cost", graph.cost[node] ? cost(graph.cost[node]) : "");
  line("Inside", text(graph.where[node]));
  const twin = graph.twin[node];
  if (twin >= 0) {
    row(`Counterpart ${otherSide(side)}`, nodeLink(otherSide(side), twin));
  }
  const rule = text(graph.rule[node]);
  if (rule) {
    row("Made by the rule", ruleLink(rule));
  }
  line("Made by the pass", text(graph.pass[node]));
  if (graph.operands[node].length > 0) {
    row("Operands", element("ul", {}, ...graph.operands[node].map((part) => element("li", {}, nodeLink(side, part)))));
  }
  const using = users[side][node];
  if (using.length > 0) {
    const more = using.length > USERS_SHOWN ? [element("li", {}, `${using.length - USERS_SHOWN} more`)] : [];
    row("Used by", element("ul", {}, ...using.slice(0, USERS_SHOWN).map((user) => element("li", {}, nodeLink(side, user))), ...more));
  }
  const place = graph.place[node];
  if (place && classPlace(place[0], place[1]) >= 0) {
    row("E-graph", element("button", { type: "button", class: "link", click: () => {
      showClass(place[0], classPlace(place[0], place[1]));
      byId("egraph").scrollIntoView();
    } }, `its e-class in ${data.runs[place[0]].pass}`));
  }
  byId("details").replaceChildren(element("h3", {}, isolated(text(graph.label[node]))), rows);
}

/** An operand or a user: a link to the node, or the text of a constant. */
function nodeLink(side, part) {
  if (part < 0) {
    return element("span", { class: "quiet data" }, text(-1 - part));
  }
  const graph = data.graphs[side];
  const label = text(graph.label[part]);
  const own = text(graph.name[part]);
  const told = own && own !== label ? `${label}  ${own}` : label;
  return element("button", { type: "button", class: "link", click: () => goTo(side, part) }, isolated(told));
}
