// The e-graph around a class: boxes of equal lines, from users at the left to operands at the right.

const LINE = 18;
const CHARACTER = 7.25; // of the monospaced font
const PER_COLUMN = 24;
const LINES_SHOWN = 12;
const LISTED = 400;
const OPERAND_DEPTH = 2;
const shownClass = { run: -1, cls: -1 };
const indexes = [];

/** The nodes and users of each class of an e-graph, by place. */
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

/** The place of a class in the data; -1 where it was left out. */
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
  const busiest = runs.reduce((best, run) => (run.applications > best.applications ? run : best));
  showClass(busiest.at, interesting(busiest.at)[0]);
}

/** Classes of several nodes, or all where there is none. */
function interesting(run) {
  const { nodes } = indexOf(run);
  const several = nodes.flatMap((each, cls) => (each.length > 1 ? [cls] : []));
  return several.length > 0 ? several : nodes.map((_, cls) => nodes.length - 1 - cls);
}

function showClass(run, cls) {
  const changedRun = run !== shownClass.run;
  [shownClass.run, shownClass.cls] = [run, cls];
  const graph = data.egraphs[run];
  byId("run").value = String(run);
  const listed = interesting(run).slice(0, LISTED);
  if (!listed.includes(cls)) {
    listed.unshift(cls);
  }
  byId("class").replaceChildren(...listed.map((each) => element("option", { value: String(each) }, className(run, each))));
  byId("class").value = String(cls);
  const whole = count(graph.nodes, "node");
  const cut = graph.nodes < graph.total ? `${graph.nodes} of ${graph.total} nodes, those around which rules did something` : whole;
  byId("region").textContent = `${cut}${interesting(run).length > LISTED ? `; the first ${LISTED} classes are listed` : ""}`;
  drawClusters(run, cls);
  if (changedRun) {
    byId("clusters").scrollTo(0, 0);
  }
}

function className(run, cls) {
  const graph = data.egraphs[run];
  const nodes = indexOf(run).nodes[cls];
  const labels = [...new Set(nodes.map((node) => text(graph.label[node])))];
  const more = labels.length > 3 ? ` +${labels.length - 3}` : "";
  return `${graph.classes[cls]}: ${labels.slice(0, 3).join(" = ")}${more}${nodes.length > 1 ? ` (${nodes.length} nodes)` : ""}`;
}

/** The classes to draw, column by column, and how many had no room. */
function columnsAround(run, cls) {
  const graph = data.egraphs[run];
  const { nodes, users } = indexOf(run);
  const seen = new Set([cls]);
  let left = 0;
  const bounded = (found) => {
    const kept = found.slice(0, PER_COLUMN);
    left += found.length - kept.length;
    return kept;
  };
  const columns = [[cls]];
  for (let depth = 0; depth < OPERAND_DEPTH; depth += 1) {
    const next = [];
    for (const each of columns[depth]) {
      for (const node of nodes[each].slice(0, LINES_SHOWN)) {
        for (const part of graph.operands[node]) {
          if (part >= 0 && !seen.has(part)) {
            seen.add(part);
            next.push(part);
          }
        }
      }
    }
    columns.push(bounded(next));
  }
  const above = bounded([...users[cls]].filter((each) => !seen.has(each)));
  return [[above, ...columns].filter((column) => column.length > 0), left];
}

function drawClusters(run, chosen) {
  const [columns, left] = columnsAround(run, chosen);
  const boxes = new Map();
  let [x, height] = [16, 0];
  for (const column of columns) {
    let [y, width] = [16, 0];
    for (const cls of column) {
      const box = clusterOf(run, cls, x, y);
      boxes.set(cls, box);
      y += box.height + 14;
      width = Math.max(width, box.width);
    }
    x += width + 70;
    height = Math.max(height, y);
  }
  for (const column of columns) { // columns stand in the middle
    const last = boxes.get(column.at(-1));
    const shift = (height - (last.y + last.height + 14)) / 2;
    column.forEach((cls) => {
      boxes.get(cls).y += shift;
    });
  }
  const picture = svg("svg", { width: x - 50, height: height + 6 });
  const wires = svg("g");
  picture.append(wires);
  for (const [cls, box] of boxes) {
    picture.append(drawCluster(run, cls, box, cls === chosen));
    drawWires(run, box, boxes, wires);
  }
  const note = left > 0 ? [element("p", { class: "quiet" }, `${count(left, "more class", "more classes")} around it`)] : [];
  byId("clusters").replaceChildren(picture, ...note);
}

function clusterOf(run, cls, x, y) {
  const graph = data.egraphs[run];
  const nodes = indexOf(run).nodes[cls];
  const taken = nodes.filter((node) => graph.taken[node]);
  const order = [...taken, ...nodes.filter((node) => !graph.taken[node])];
  const lines = order.slice(0, LINES_SHOWN);
  const type = shortened(text(graph.types[cls]), 44);
  const widest = Math.max(type.length + 10, ...lines.map((node) => lineText(graph, node).length + costText(graph, node).length + 2));
  const more = order.length - lines.length;
  return { x, y, lines, more, type, width: widest * CHARACTER + 24, height: 30 + LINE * (lines.length + (more > 0 ? 1 : 0)) };
}

function shortened(value, length) {
  return value.length <= length ? value : `${value.slice(0, length - 1)}\u2026`;
}

function lineText(graph, node) {
  const attrs = text(graph.attrs[node]);
  return `${graph.taken[node] ? "\u2713" : " "} ${shortened(text(graph.label[node]), 30)}${attrs ? ` ${shortened(attrs, 28)}` : ""}`;
}

function costText(graph, node) {
  return graph.cost[node] === null || graph.cost[node] < 1e-11 ? "" : cost(graph.cost[node]);
}

function drawCluster(run, cls, box, chosen) {
  const graph = data.egraphs[run];
  const group = svg("g", {
    class: chosen ? "chosen" : "", tabindex: "0", role: "button", "aria-label": `class ${className(run, cls)}`,
    click: () => showClass(run, cls),
    keydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        showClass(run, cls);
      }
    },
  });
  group.append(
    svg("rect", { class: "box", x: box.x, y: box.y, width: box.width, height: box.height, rx: 7 }),
    svg("text", { class: "type", x: box.x + 10, y: box.y + 16 }, `${graph.classes[cls]}  ${box.type}`),
  );
  box.lines.forEach((node, at) => {
    const y = box.y + 24 + at * LINE;
    const rule = text(graph.rule[node]);
    const told = [text(graph.label[node]), text(graph.attrs[node]), rule ? `made by ${rule}` : "", graph.taken[node] ? "taken" : ""];
    const line = svg("g", {}, svg("title", {}, told.filter(Boolean).join("\n")));
    if (graph.taken[node]) {
      line.append(svg("rect", { class: "taken", x: box.x + 4, y, width: box.width - 8, height: LINE, rx: 3 }));
    }
    line.append(
      svg("text", { class: rule ? "made" : "", x: box.x + 8, y: y + 13 }, lineText(graph, node)),
      svg("text", { class: "cost", x: box.x + box.width - 8, y: y + 13 }, costText(graph, node)),
    );
    group.append(line);
  });
  if (box.more > 0) {
    group.append(svg("text", { class: "type", x: box.x + 10, y: box.y + 24 + box.lines.length * LINE + 13 }, `${box.more} more`));
  }
  return group;
}

function drawWires(run, box, boxes, wires) {
  const graph = data.egraphs[run];
  box.lines.forEach((node, at) => {
    const y = box.y + 24 + at * LINE + LINE / 2;
    for (const part of new Set(graph.operands[node])) {
      const other = boxes.get(part);
      if (other && other.x > box.x) {
        const [x1, x2, y2] = [box.x + box.width, other.x, other.y + 12];
        const bend = Math.max(24, (x2 - x1) / 2);
        wires.append(svg("path", {
          class: graph.taken[node] ? "wire taken-wire" : "wire", d: `M${x1},${y} C${x1 + bend},${y} ${x2 - bend},${y2} ${x2},${y2}`,
        }));
      }
    }
  });
}
