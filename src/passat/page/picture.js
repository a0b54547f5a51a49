// Nodes of a model drawn as boxes, in layers, with dagre.

const BOX_HEIGHT = 40;
const WIDEST_BOX = 200;
const NARROWEST_BOX = 64;
const SCALES = [0.8, 1.1];
const measure = document.createElement("canvas").getContext("2d");
const STATES = { before: ["same", "gone", "changed"], after: ["same", "new", "changed"] };

function textWidth(value, font) {
  measure.font = font;
  return measure.measureText(value).width;
}

/** Places boxes of given sizes in layers: `edges` are pairs of numbers of boxes. */
function layOut(sizes, edges, direction) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: direction, nodesep: 22, ranksep: direction === "TB" ? 26 : 56, marginx: 14, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  sizes.forEach(([width, height], at) => graph.setNode(String(at), { width, height }));
  edges.forEach(([from, to]) => graph.setEdge(String(from), String(to)));
  dagre.layout(graph);
  const { width, height } = graph.graph();
  return {
    boxes: sizes.map((_, at) => ({ ...graph.node(String(at)) })),
    wires: edges.map(([from, to]) => ({ from, to, points: graph.edge(String(from), String(to)).points.map((point) => ({ ...point })) })),
    width: Number.isFinite(width) ? width : 0,
    height: Number.isFinite(height) ? height : 0,
  };
}

/** The layout of some nodes of a side, with the edges between them. */
function layOutNodes(side, nodes) {
  const graph = data.graphs[side];
  const places = new Map(nodes.map((node, at) => [node, at]));
  const edges = [];
  nodes.forEach((node, at) => {
    for (const part of new Set(graph.operands[node])) {
      if (places.has(part)) {
        edges.push([places.get(part), at]);
      }
    }
  });
  return { ...layOut(nodes.map((node) => [boxWidth(graph, node), BOX_HEIGHT]), edges, "TB"), nodes, places };
}

function boxWidth(graph, node) {
  const wide = Math.max(textWidth(text(graph.label[node]), "600 13px sans-serif"), Math.min(130, textWidth(text(graph.name[node]), "11px sans-serif")));
  return Math.min(WIDEST_BOX, Math.max(NARROWEST_BOX, wide + 24));
}

/** Moves some nodes down, with the ends of the lines that lead there. */
function moveDown(layout, nodes, by) {
  const moved = new Set(nodes.map((node) => layout.places.get(node)));
  moved.forEach((at) => {
    layout.boxes[at].y += by;
  });
  for (const { from, to, points } of layout.wires) {
    points.forEach((point, at) => {
      const share = at / Math.max(1, points.length - 1);
      point.y += by * ((moved.has(from) ? 1 - share : 0) + (moved.has(to) ? share : 0));
    });
  }
  layout.height += by;
}

/** A smooth line through points. */
function pathThrough(points) {
  const [first, ...rest] = points;
  let path = `M${first.x},${first.y}`;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    if (next === undefined) {
      path += at === 0 ? `L${point.x},${point.y}` : `T${point.x},${point.y}`;
    } else {
      path += `Q${point.x},${point.y} ${(point.x + next.x) / 2},${(point.y + next.y) / 2}`;
    }
  });
  return path.replace(/T(?=[^T]*$)/, "L");
}

/** The drawing of a layout. `chosen` is a node or -1, `inside` has the nodes of the change that is shown. */
function draw(side, layout, inside, chosen, onSelect) {
  const graph = data.graphs[side];
  const picture = svg("svg", { viewBox: `0 0 ${layout.width} ${layout.height}`, role: "group", "aria-label": `${layout.nodes.length} nodes ${side}` });
  for (const { from, to, points } of layout.wires) {
    const own = inside.has(layout.nodes[from]) && inside.has(layout.nodes[to]);
    picture.append(svg("path", { class: own ? "wire own" : "wire", d: pathThrough(points) }));
  }
  layout.nodes.forEach((node, at) => {
    const { x, y, width } = layout.boxes[at];
    const isNode = graph.kind[node] === 0;
    const state = isNode ? STATES[side][graph.state[node]] : "input";
    const name = text(graph.name[node]);
    const label = text(graph.label[node]);
    const known = [name === label ? "" : name, text(graph.type[node]), graph.cost[node] ? `cost ${cost(graph.cost[node])}` : ""].filter(Boolean);
    const below = isNode && name && name !== label;
    const group = svg("g", {
      class: `node ${state}${inside.has(node) ? "" : " around"}${node === chosen ? " chosen" : ""}`, tabindex: "0", role: "button",
      "aria-label": `${label} ${name}, ${stateText(side, node)}`, "data-node": String(node), ...pressed(() => onSelect(node)),
    },
    svg("title", {}, [label, ...known].join("\n")),
    svg("rect", { x: x - width / 2, y: y - BOX_HEIGHT / 2, width, height: BOX_HEIGHT, rx: isNode ? 6 : 20 }),
    svg("text", { x, y: y + (below ? -2 : 5), class: "operator" }, shortened(label, Math.floor((width - 12) / 7))),
    ...(below ? [svg("text", { x, y: y + 12, class: "name" }, ending(name, Math.floor((width - 12) / 5.7)))] : []));
    picture.append(group);
  });
  return picture;
}

/** The state of a node in the comparison. */
function stateText(side, node) {
  const graph = data.graphs[side];
  if (graph.kind[node] !== 0) {
    return graph.kind[node] === 1 ? "input" : "output";
  }
  return [["unchanged", "removed", "changed"], ["unchanged", "new", "changed"]][side === "before" ? 0 : 1][graph.state[node]];
}

function shortened(value, length) {
  return value.length <= length ? value : `${value.slice(0, Math.max(1, length - 1))}\u2026`;
}

/** The end of a name, which is more specific than its beginning. */
function ending(value, length) {
  return value.length <= length ? value : `\u2026${value.slice(1 - length)}`;
}
