// The program before and after, side by side: search, selection, details.

const SIDES = ["before", "after"];
const USERS_SHOWN = 30;
const views = {};
const search = { side: "after", at: -1, matches: { before: [], after: [] } };

function startGraphs() {
  for (const side of SIDES) {
    const graph = data.graphs[side];
    const changed = graph.changed.reduce((sum, each, node) => sum + (graph.kind[node] === 0 ? each : 0), 0);
    const calls = graph.kind.filter((kind) => kind === 0).length;
    const left = graph.total > graph.x.length ? ` (the last ${count(graph.total - graph.x.length, "node")} of ${graph.total} left out)` : "";
    const caption = `${side === "before" ? "Before" : "After"}: ${count(calls, "call")}, ${changed} ${side === "before" ? "gone" : "new"}${left}`;
    byId(`caption-${side}`).textContent = caption;
    byId(side).setAttribute("aria-label", `${caption}. Arrow keys move, plus and minus zoom, Enter chooses the node in the middle.`);
    views[side] = new GraphView(byId(side), graph, side === "before" ? "gone" : "new", (node) => select(side, node));
    byId(`tools-${side}`).append(
      element("button", { type: "button", "aria-label": "larger", click: () => views[side].zoom(1.5) }, "+"),
      element("button", { type: "button", "aria-label": "smaller", click: () => views[side].zoom(1 / 1.5) }, "\u2212"),
      element("button", { type: "button", click: () => views[side].fit() }, "all"),
    );
  }
  const input = byId("search");
  input.addEventListener("input", () => searchFor(input.value));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      step(event.shiftKey ? -1 : 1);
    }
  });
  byId("next").addEventListener("click", () => step(1));
  byId("previous").addEventListener("click", () => step(-1));
  searchFor("");
  showDetails("after", -1);
}

/** Chooses a node, and its counterpart on the other side. */
function select(side, node) {
  const other = side === "before" ? "after" : "before";
  views[side].selected = node;
  views[side].ask();
  const twin = node < 0 ? -1 : data.graphs[side].twin[node];
  if (twin >= 0) {
    views[other].show(twin);
  } else {
    views[other].selected = -1;
    views[other].ask();
  }
  showDetails(side, node);
}

/** Chooses a node and goes to it. */
function goTo(side, node) {
  views[side].show(node);
  select(side, node);
}

/** Marks the nodes of which a text is part of the operator or a name. */
function searchFor(wanted) {
  const query = wanted.trim().toLowerCase();
  for (const side of SIDES) {
    const graph = data.graphs[side];
    const matches = [];
    if (query) {
      for (let node = 0; node < graph.x.length; node += 1) {
        const texts = [graph.label[node], graph.name[node], ...graph.outputs[node]];
        if (texts.some((number) => text(number).toLowerCase().includes(query))) {
          matches.push(node);
        }
      }
    }
    mark(side, matches);
  }
  search.at = -1;
  if (search.matches[search.side].length === 0) {
    search.side = search.side === "before" ? "after" : "before";
  }
  const { before, after } = search.matches;
  byId("matches").textContent = query ? `${before.length} before, ${after.length} after` : "";
  byId("next").disabled = byId("previous").disabled = before.length + after.length === 0;
}

function mark(side, nodes) {
  search.matches[side] = nodes;
  views[side].found = new Set(nodes);
  views[side].ask();
}

function step(by) {
  const all = SIDES.flatMap((side) => search.matches[side].map((node) => [side, node]));
  if (all.length > 0) {
    search.at = search.at < 0 ? (by > 0 ? 0 : all.length - 1) : (search.at + by + all.length) % all.length;
    const [side, node] = all[search.at];
    byId("matches").textContent = `${search.at + 1} of ${all.length}, ${side}`;
    goTo(side, node);
  }
}

/** Marks what a rule made, and shows it. */
function showRule(rule) {
  const { rule: rules } = data.graphs.after;
  const nodes = rules.flatMap((number, node) => (text(number) === rule ? [node] : []));
  byId("search").value = "";
  searchFor("");
  mark("after", nodes);
  views.after.fit(nodes);
  byId("next").disabled = byId("previous").disabled = nodes.length === 0;
  byId("matches").textContent = `${count(nodes.length, "call")} made by ${rule}`;
  byId("graphs").scrollIntoView();
}

function showDetails(side, node) {
  const panel = byId("details");
  if (node < 0) {
    panel.replaceChildren(element("p", { class: "empty" }, "Choose a node to see what it is, and where it comes from."));
    return;
  }
  const graph = data.graphs[side];
  const rows = element("dl");
  const row = (title, ...parts) => rows.append(element("dt", {}, title), element("dd", {}, ...parts));
  const line = (title, value) => {
    if (value) {
      row(title, isolated(value));
    }
  };
  const changed = graph.changed[node] === 1;
  const status = changed ? (side === "before" ? "gone" : "new") : "kept";
  row("In the program", element("span", { class: `status ${status}` }, side === "before" ? `before, ${status}` : `after, ${status}`));
  const twin = graph.twin[node];
  if (twin >= 0 && changed) {
    const other = side === "before" ? "after" : "before";
    row(side === "before" ? "In its place" : "In the place of", operand(other, twin));
  }
  const rule = text(graph.rule[node]);
  if (rule) {
    row("Made by the rule", element("button", { type: "button", class: "link", click: () => showRule(rule) }, isolated(rule)));
  }
  if (changed && side === "after" && !rule && graph.kind[node] === 0) {
    const pass = text(graph.pass[node]);
    if (pass) {
      row("Made by the pass", isolated(pass));
    } else {
      row("Made by", "no rule: shapes became attributes, or what it is made of was folded");
    }
  }
  line("Type", text(graph.type[node]));
  line("Attributes", text(graph.attrs[node]));
  line("From the ONNX node", text(graph.name[node]));
  line("Outputs", graph.outputs[node].map(text).join(", "));
  if (text(graph.function[node]) !== "main") {
    line("Function", text(graph.function[node]));
  }
  if (graph.operands[node].length > 0) {
    row("Operands", element("ul", {}, ...graph.operands[node].map((part) => element("li", {}, operand(side, part)))));
  }
  const users = views[side].users[node];
  if (users.length > 0) {
    const more = users.length > USERS_SHOWN ? [element("li", {}, `${users.length - USERS_SHOWN} more`)] : [];
    row("Used by", element("ul", {}, ...users.slice(0, USERS_SHOWN).map((user) => element("li", {}, operand(side, user))), ...more));
  }
  const place = graph.place[node];
  if (place && classPlace(place[0], place[1]) >= 0) {
    const open = () => {
      showClass(place[0], classPlace(place[0], place[1]));
      byId("egraph").scrollIntoView();
    };
    row("E-graph", element("button", { type: "button", click: open }, `its class in ${data.runs[place[0]].pass}`));
  } else if (place) {
    row("E-graph", element("span", { class: "quiet" }, "its class is not among those that the page has"));
  }
  panel.replaceChildren(element("h3", {}, isolated(text(graph.label[node]))), rows);
}

/** An operand or a user: a link to the node, or the text of a constant. */
function operand(side, part) {
  if (part < 0) {
    return element("span", { class: "quiet data" }, text(-1 - part));
  }
  const graph = data.graphs[side];
  const label = text(graph.label[part]);
  const own = text(graph.name[part]);
  const told = own && own !== label ? `${label}  ${own}` : label;
  return element("button", { type: "button", class: "link", click: () => goTo(side, part) }, isolated(told));
}
