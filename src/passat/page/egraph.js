// The e-graph around an e-class: a box for each e-class, a line in it for each e-node, from users on the left to operands on the right.

const LINE = 18;
const CHARACTER = 7.25; // of the monospaced font
const PER_COLUMN = 12;
const LINES_SHOWN = 10;
const LISTED = 400;
const OPERAND_DEPTH = 2;
const CHIPS = 24;
const shownClass = { run: -1, cls: -1 };
const indexes = [];

/** The e-nodes and users of each e-class of an e-graph, by place. */
function indexOf(run) {
  if (!indexes[run]) {
    const graph = data.egraphs[run];
    const nodes = graph.classes.map(() => []);
    const users = graph.classes.map(() => new Set());
    graph.cls.forEach((cls, node) => {
      nodes[cls].push(node);
      graph.operands[node].forEach((part) => {
        if (part >= 0) {
          users[part].add(cls);
        }
      });
    });
    const places = new Map(graph.classes.map((cls, place) => [cls, place]));
    indexes[run] = { nodes, users, places };
  }
  return indexes[run];
}

/** The place of an e-class in the data; -1 if it was left out. */
function classPlace(run, cls) {
  return data.egraphs[run] ? indexOf(run).places.get(cls) ?? -1 : -1;
}

function startEGraph() {
  const runs = data.runs.map((run, at) => ({ ...run, at })).filter((run) => data.egraphs[run.at] && data.egraphs[run.at].classes.length > 0);
  const choice = byId("run");
  if (runs.length === 0) {
    byId("clusters").append(element("p", { class: "empty" }, "No rules ran."));
    choice.disabled = byId("class").disabled = true;
    return;
  }
  choice.append(...runs.map((run) => element(
    "option", { value: String(run.at) },
    `${run.pass}${run.function === "main" ? "" : ` (${run.function})`}: ${count(run.applications, "application")}`,
  )));
  choice.addEventListener("change", () => showClass(Number(choice.value), interesting(Number(choice.value))[0]));
  byId("class").addEventListener("change", (event) => showClass(shownClass.run, Number(event.target.value)));
  if (shownClass.run < 0) {
    const busiest = runs.reduce((best, run) => (run.applications > best.applications ? run : best));
    showClass(busiest.at, interesting(busiest.at)[0]);
  }
}

/** The e-classes of the nodes of a change as buttons, those with alternatives first; shows the first one. */
function showClassesOf(place) {
  const found = new Map();
  for (const side of [...SIDES].reverse()) {
    for (const node of place[side]) {
      const at = data.graphs[side].place[node];
      const cls = at ? classPlace(...at) : -1;
      const key = at ? `${at[0]} ${cls}` : "";
      if (cls >= 0 && !found.has(key)) {
        found.set(key, { run: at[0], cls, label: text(data.graphs[side].label[node]), size: indexOf(at[0]).nodes[cls].length });
      }
    }
  }
  const classes = [...found.values()].sort((a, b) => Number(b.size > 1) - Number(a.size > 1));
  const host = byId("classes-of-change");
  if (classes.length === 0) {
    host.replaceChildren(element("span", { class: "quiet" }, "No e-graph of the page contains the nodes of the chosen change."));
    return;
  }
  const more = classes.length > CHIPS ? [element("span", { class: "quiet" }, `and ${classes.length - CHIPS} more`)] : [];
  host.replaceChildren(
    element("span", { class: "quiet" }, `E-classes of the chosen change${classes[0].size > 1 ? "" : ", none with alternatives"}:`),
    ...classes.slice(0, CHIPS).map(({ run, cls, label, size }) => element(
      "button", { type: "button", class: "chip", "data-class": `${run} ${cls}`, click: () => showClass(run, cls) },
      `${label}${size > 1 ? ` (${size} e-nodes)` : ""}`,
    )), ...more,
  );
  showClass(classes[0].run, classes[0].cls);
}

/** E-classes with several e-nodes, or all if there are none. */
function interesting(run) {
  const { nodes } = indexOf(run);
  const several = nodes.flatMap((each, cls) => (each.length > 1 ? [cls] : []));
  return several.length > 0 ? several : nodes.map((_, cls) => nodes.length - 1 - cls);
}

function showClass(run, cls) {
  [shownClass.run, shownClass.cls] = [run, cls];
  const graph = data.egraphs[run];
  byId("run").value = String(run);
  const listed = interesting(run).slice(0, LISTED);
  if (!listed.includes(cls)) {
    listed.unshift(cls);
  }
  byId("class").replaceChildren(...listed.map((each) => element("option", { value: String(each) }, className(run, each))));
  byId("class").value = String(cls);
  const whole = count(graph.nodes, "e-node");
  const cut = graph.nodes < graph.total ? `${graph.nodes} of ${graph.total} e-nodes, those around which rules applied` : whole;
  byId("region").textContent = `${cut}${interesting(run).length > LISTED ? `; the first ${LISTED} e-classes are listed` : ""}`;
  document.querySelectorAll(".chip").forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.class === `${run} ${cls}`)));
  drawClusters(run, cls);
}

function className(run, cls) {
  const graph = data.egraphs[run];
  const nodes = indexOf(run).nodes[cls];
  const labels = [...new Set(nodes.map((node) => text(graph.label[node])))];
  const more = labels.length > 3 ? ` +${labels.length - 3}` : "";
  return `${graph.classes[cls]}: ${labels.slice(0, 3).join(" = ")}${more}${nodes.length > 1 ? ` (${nodes.length} e-nodes)` : ""}`;
}

/** The e-classes to draw, and the number of those without room. */
function classesAround(run, cls) {
  const graph = data.egraphs[run];
  const { nodes, users: using } = indexOf(run);
  const seen = new Set([cls]);
  let left = 0;
  const add = (found) => {
    const fresh = [...new Set(found)].filter((each) => each >= 0 && !seen.has(each));
    left += Math.max(0, fresh.length - PER_COLUMN);
    const kept = fresh.slice(0, PER_COLUMN);
    kept.forEach((each) => seen.add(each));
    return kept;
  };
  let column = [cls];
  for (let depth = 0; depth < OPERAND_DEPTH; depth += 1) {
    column = add(column.flatMap((each) => nodes[each].slice(0, LINES_SHOWN).flatMap((node) => graph.operands[node])));
  }
  add([...using[cls]]);
  return [[...seen], left];
}

function drawClusters(run, chosen) {
  const graph = data.egraphs[run];
  const [classes, left] = classesAround(run, chosen);
  const boxes = classes.map((cls) => clusterOf(run, cls));
  const places = new Map(classes.map((cls, at) => [cls, at]));
  const edges = new Map();
  boxes.forEach((box, at) => box.lines.forEach((node, line) => {
    for (const part of new Set(graph.operands[node])) {
      const other = places.get(part) ?? -1;
      if (other >= 0 && other !== at) {
        const key = `${at} ${other}`;
        edges.set(key, [...(edges.get(key) ?? []), [line, graph.taken[node]]]);
      }
    }
  }));
  const layout = layOut(boxes.map((box) => [box.width, box.height]), [...edges.keys()].map((key) => key.split(" ").map(Number)), "LR");
  const picture = svg("svg", { width: Math.ceil(layout.width), height: Math.ceil(layout.height) });
  for (const { from, to, points } of layout.wires) {
    const lines = edges.get(`${from} ${to}`);
    for (const [line, taken] of lines) {
      const [box, other] = [layout.boxes[from], layout.boxes[to]];
      const forward = other.x > box.x ? 1 : -1;
      const start = { x: box.x + (forward * box.width) / 2, y: box.y - box.height / 2 + 24 + line * LINE + LINE / 2 };
      const end = { x: other.x - (forward * other.width) / 2, y: other.y - other.height / 2 + 14 };
      const bend = forward * Math.max(24, Math.abs(end.x - start.x) / 2);
      const path = points.length > 3 ? pathThrough([start, ...points.slice(1, -1), end])
        : `M${start.x},${start.y} C${start.x + bend},${start.y} ${end.x - bend},${end.y} ${end.x},${end.y}`;
      picture.append(svg("path", { class: taken ? "wire taken-wire" : "wire", d: path }));
    }
  }
  classes.forEach((cls, at) => {
    const { x, y, width, height } = layout.boxes[at];
    picture.append(drawCluster(run, cls, { ...boxes[at], x: x - width / 2, y: y - height / 2 }, cls === chosen));
  });
  const note = left > 0 ? [element("p", { class: "quiet" }, `${count(left, "more e-class", "more e-classes")} around it`)] : [];
  const host = byId("clusters");
  host.replaceChildren(picture, ...note);
  const { x, y } = layout.boxes[0];
  host.scrollTo(x - host.clientWidth / 2, y - host.clientHeight / 2);
}

function clusterOf(run, cls) {
  const graph = data.egraphs[run];
  const nodes = indexOf(run).nodes[cls];
  const taken = nodes.filter((node) => graph.taken[node]);
  const order = [...taken, ...nodes.filter((node) => !graph.taken[node])];
  const lines = order.slice(0, LINES_SHOWN);
  const type = shortened(text(graph.types[cls]), 44);
  const lengths = lines.map((node) => [lineText, ruleText, costText].reduce((sum, part) => sum + part(graph, node).length, 3));
  const widest = Math.max(type.length + 10, ...lengths);
  const more = order.length - lines.length;
  return { lines, more, type, width: widest * CHARACTER + 24, height: 30 + LINE * (lines.length + (more > 0 ? 1 : 0)) };
}

function lineText(graph, node) {
  const attrs = text(graph.attrs[node]);
  return `${graph.taken[node] ? "\u2713" : " "} ${shortened(text(graph.label[node]), 30)}${attrs ? ` ${shortened(attrs, 28)}` : ""}`;
}

function ruleText(graph, node) {
  const rule = text(graph.rule[node]);
  return rule ? `  by ${shortened(rule, 34)}` : "";
}

function costText(graph, node) {
  return graph.cost[node] === null || graph.cost[node] < 1e-11 ? "" : cost(graph.cost[node]);
}

function drawCluster(run, cls, box, chosen) {
  const graph = data.egraphs[run];
  const group = svg("g", {
    class: chosen ? "chosen" : "", tabindex: "0", role: "button", "aria-label": `e-class ${className(run, cls)}`,
    ...pressed(() => showClass(run, cls)),
  });
  group.append(
    svg("rect", { class: "box", x: box.x, y: box.y, width: box.width, height: box.height, rx: 7 }),
    svg("text", { class: "type", x: box.x + 10, y: box.y + 16 }, `${graph.classes[cls]}  ${box.type}`),
  );
  box.lines.forEach((node, at) => {
    const y = box.y + 24 + at * LINE;
    const rule = text(graph.rule[node]);
    const told = [text(graph.operator[node]), text(graph.attrs[node]), rule ? `made by ${rule}` : "", graph.taken[node] ? "extracted" : ""];
    const line = svg("g", {}, svg("title", {}, told.filter(Boolean).join("\n")));
    if (graph.taken[node]) {
      line.append(svg("rect", { class: "taken", x: box.x + 4, y, width: box.width - 8, height: LINE, rx: 3 }));
    }
    line.append(
      svg("text", { x: box.x + 8, y: y + 13 }, lineText(graph, node), svg("tspan", { class: "made" }, ruleText(graph, node))),
      svg("text", { class: "cost", x: box.x + box.width - 8, y: y + 13 }, costText(graph, node)),
    );
    group.append(line);
  });
  if (box.more > 0) {
    group.append(svg("text", { class: "type", x: box.x + 10, y: box.y + 24 + box.lines.length * LINE + 13 }, `${box.more} more`));
  }
  return group;
}
