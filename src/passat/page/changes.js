// The changes, largest saving first, and the chosen one before and after, side by side.

const SIDES = ["before", "after"];
const AROUND = 12;
const REST = 0.02; // of the whole saving
const OPERATORS_SHOWN = 5;
const LISTED_CHANGES = 60;
const NEIGHBORS = 2;
const MOST_DRAWN = 160;
const MOST_MORE = 4;
const FIRST = 30;
const shown = {
  group: -1, instance: 0, nodes: { before: [], after: [] }, chosen: { side: "after", node: -1 }, zoom: 1, more: 0, again: () => {},
};
const users = {};
const regionOf = { before: new Map(), after: new Map() };

function otherSide(side) {
  return side === "before" ? "after" : "before";
}

function saving(group) {
  return group.costs[0] - group.costs[1];
}

/** A saving, with a sign. */
function savedText(value) {
  return Math.abs(value) < 1e-12 ? "\u00b1 0" : `${value > 0 ? "\u2212" : "+"}${cost(Math.abs(value))}`;
}

/** Operators with their counts; only the most frequent if there are many. */
function operatorsText(counts) {
  if (counts.length === 0) {
    return "nothing";
  }
  const order = counts.length > OPERATORS_SHOWN ? [...counts].sort((a, b) => b[1] - a[1]).slice(0, OPERATORS_SHOWN - 1) : counts;
  const left = counts.reduce((sum, [, times]) => sum + times, 0) - order.reduce((sum, [, times]) => sum + times, 0);
  const named = order.map(([name, times]) => (times > 1 ? `${times} ${name}` : name));
  return [...named, ...(left > 0 ? [`${left} more`] : [])].join(" + ");
}

function startChanges() {
  for (const side of SIDES) {
    const { operands } = data.graphs[side];
    users[side] = operands.map(() => []);
    operands.forEach((parts, node) => {
      for (const part of new Set(parts)) {
        if (part >= 0) {
          users[side][part].push(node);
        }
      }
    });
  }
  data.regions.forEach((group, at) => group.instances.forEach((instance, number) => {
    SIDES.forEach((side) => instance[side].forEach((node) => regionOf[side].set(node, [at, number])));
  }));
  listChanges();
  for (const [side, other] of [SIDES, [...SIDES].reverse()]) {
    byId(side).addEventListener("scroll", () => follow(byId(side), byId(other)));
  }
  byId("zoom-in").addEventListener("click", () => zoomBy(1.25));
  byId("zoom-out").addEventListener("click", () => zoomBy(0.8));
  byId("draw-more").addEventListener("click", () => shown.again(shown.more + 1));
  byId("previous-place").addEventListener("click", () => showChange(shown.group, shown.instance - 1));
  byId("next-place").addEventListener("click", () => showChange(shown.group, shown.instance + 1));
  new ResizeObserver(() => scalePictures()).observe(byId("before"));
  if (data.regions.length > 0) {
    showChange(0, 0);
  } else {
    byId("previous-place").hidden = byId("next-place").hidden = byId("details").hidden = true;
    showFirst();
  }
}

/** Shows the beginning of both models. */
function showFirst(more = 0) {
  shown.more = more;
  shown.again = showFirst;
  const first = (side) => data.graphs[side].kind.map((_, node) => node).slice(0, FIRST * 2 ** more);
  showNodes({ before: first("before"), after: first("after") }, null);
}

/** Maximum number of nodes drawn on a side; doubles with each request for more. */
function mostDrawn() {
  return MOST_DRAWN * 2 ** shown.more;
}

function listChanges() {
  const list = byId("list");
  const groups = data.regions;
  if (groups.length === 0) {
    list.append(element("li", { class: "empty" }, "No node was removed, added or changed."));
    return;
  }
  const most = Math.max(...groups.map((group) => Math.abs(saving(group))), 1e-12);
  const item = (group, at) => {
    const bar = element("i", { class: saving(group) < 0 ? "worse" : "" });
    bar.style.width = `${(100 * Math.abs(saving(group))) / most}%`;
    const isChange = group.instances[0].what.length > 0;
    const [old, made] = [operatorsText(group.before), operatorsText(group.after)];
    const title = isChange ? `${made}: other attributes or constants` : `${old} \u2192 ${made}`;
    const by = group.rules.length > 0 ? group.rules : group.other;
    const nodes = group.nodes[1] - group.nodes[0];
    return element("li", {}, element(
      "button", { type: "button", class: "change", "data-group": String(at), click: () => showChange(at, 0) },
      element("span", { class: "row" },
        element("b", { class: "saved" }, savedText(saving(group))),
        element("span", { class: "quiet" }, [group.instances.length > 1 ? `${group.instances.length} places` : "1 place",
          nodes === 0 ? "" : `${nodes > 0 ? "+" : "\u2212"}${count(Math.abs(nodes), "node")}`].filter(Boolean).join(", "))),
      element("span", { class: "bar-track" }, bar),
      element("span", { class: "data operators" }, shortened(title, 150)),
      element("span", { class: "quiet data by" }, by.length === 0 ? "no longer needed" : shortened(by.join(", "), 90)),
    ));
  };
  list.append(...groups.slice(0, LISTED_CHANGES).map(item));
  const [before, after] = data.head.costs;
  const rest = before - after - groups.reduce((sum, group) => sum + saving(group), 0);
  if (Math.abs(rest) > REST * Math.abs(before - after)) {
    byId("rest").textContent = `${savedText(rest)} from unchanged nodes whose operands have other shapes or sizes.`;
  }
  if (groups.length > LISTED_CHANGES) {
    const more = element("button", { type: "button", click: () => {
      more.parentNode.remove();
      list.append(...groups.slice(LISTED_CHANGES).map((group, at) => item(group, at + LISTED_CHANGES)));
    } }, `${groups.length - LISTED_CHANGES} more`);
    list.append(element("li", {}, more));
  }
}

/** The nodes next to some nodes: those that they read, then those that read them. */
function neighbors(side, nodes) {
  const own = new Set(nodes);
  const { operands } = data.graphs[side];
  const found = (each) => [...new Set(nodes.flatMap(each))].filter((node) => node >= 0 && !own.has(node))
    .slice(0, AROUND * 2 ** shown.more);
  return [...new Set([...found((node) => operands[node]), ...found((node) => users[side][node])])];
}

/** Some nodes with those around them, up to a distance. */
function grown(side, nodes, distance) {
  let found = [...nodes];
  for (let step = 0; step < distance; step += 1) {
    found = [...new Set([...found, ...neighbors(side, found)])];
  }
  return found;
}

/** Shows one place of a change on both sides, with the nodes around it. */
function showChange(group, instance, more = 0) {
  const change = data.regions[group];
  const number = (instance + change.instances.length) % change.instances.length;
  const place = change.instances[number];
  shown.group = group;
  shown.instance = number;
  shown.more = more;
  shown.again = (further) => showChange(group, number, further);
  shown.chosen = { side: "after", node: -1 };
  const around = Object.fromEntries(SIDES.map((side) => [side, grown(side, place[side], 1 + more).slice(place[side].length)]));
  const nodes = {};
  around.after = [...new Set([...around.after, ...place.into])];
  for (const side of SIDES) {
    const other = otherSide(side);
    const twins = around[other].map((node) => data.graphs[other].twin[node]).filter((node) => node >= 0);
    nodes[side] = [...new Set([...place[side], ...around[side], ...twins])].sort((a, b) => a - b);
  }
  showNodes(nodes, place);
  document.querySelectorAll("#list .change").forEach((button) => {
    button.setAttribute("aria-pressed", String(Number(button.dataset.group) === group));
  });
  byId("place").textContent = change.instances.length > 1 ? `Place ${number + 1} of ${change.instances.length}` : "";
  byId("previous-place").hidden = byId("next-place").hidden = change.instances.length < 2;
  showDetailsOfChange(change, place);
  showClassesOf(place);
}

/** Shows the surroundings of a node on both sides. */
function showSurroundings(side, node, more = 0) {
  shown.more = more;
  shown.again = (further) => showSurroundings(side, node, further);
  const own = grown(side, [node], NEIGHBORS + more).slice(0, mostDrawn()).sort((a, b) => a - b);
  const twins = [...new Set(own.map((each) => data.graphs[side].twin[each]).filter((each) => each >= 0))];
  shown.group = -1;
  document.querySelectorAll("#list .change").forEach((button) => button.setAttribute("aria-pressed", "false"));
  byId("place").textContent = "";
  byId("previous-place").hidden = byId("next-place").hidden = true;
  shown.chosen = { side, node };
  showNodes({ [side]: own, [otherSide(side)]: twins.sort((a, b) => a - b) }, null);
}

function showNodes(nodes, place) {
  shown.nodes = nodes;
  shown.place = place;
  shown.layouts = Object.fromEntries(SIDES.map((side) => [side, layOutNodes(side, nodes[side].slice(0, mostDrawn()))]));
  const isWhole = SIDES.every((side) => shown.layouts[side].nodes.length === data.graphs[side].kind.length);
  byId("draw-more").hidden = isWhole || shown.more === MOST_MORE;
  if (place !== null) {
    const [shorter, taller] = [...SIDES].sort((a, b) => shown.layouts[a].height - shown.layouts[b].height);
    const by = shown.layouts[taller].height - shown.layouts[shorter].height;
    moveDown(shown.layouts[shorter], readers(shorter, shown.layouts[shorter], place[shorter]), by);
  }
  for (const side of SIDES) {
    const graph = data.graphs[side];
    const own = place === null ? nodes[side] : place[side];
    const counted = own.filter((node) => (place === null ? graph.counted[node] : graph.kind[node] === 0)).length;
    const left = nodes[side].length - Math.min(nodes[side].length, mostDrawn());
    const kind = place !== null && place.what.length > 0 ? "changed node" : side === "before" ? "removed node" : "new node";
    const whole = `${counted} of ${count(data.head.nodes[side === "before" ? 0 : 1], "node")}`;
    const told = own.length === 0 ? "nothing" : place === null ? whole : count(counted, kind);
    const costs = place === null ? "" : `, cost ${cost(place.costs[side === "before" ? 0 : 1])}`;
    byId(`caption-${side}`).replaceChildren(
      element("b", {}, side === "before" ? "Before" : "After"), `: ${told}${costs}${left > 0 ? ` (${left} not drawn)` : ""}`,
    );
  }
  drawPictures();
}

/** The nodes of a picture after a change: those that read it, unless the change also reads them. */
function readers(side, layout, changed) {
  const inside = new Set(changed);
  const { operands } = data.graphs[side];
  const drawn = new Set(layout.nodes);
  const readByChange = new Set();
  const pending = [...changed];
  while (pending.length > 0) {
    for (const part of operands[pending.pop()]) {
      if (drawn.has(part) && !inside.has(part) && !readByChange.has(part)) {
        readByChange.add(part);
        pending.push(part);
      }
    }
  }
  const found = layout.nodes.filter((node) => !inside.has(node) && !readByChange.has(node));
  return changed.length > 0 ? found : found.filter((node) => operands[node].some((part) => drawn.has(part)));
}

function drawPictures() {
  for (const side of SIDES) {
    const chosen = shown.chosen.side === side ? shown.chosen.node : twinOf(shown.chosen);
    const inside = new Set(shown.place === null ? shown.nodes[side] : shown.place[side]);
    const host = byId(side);
    const layout = shown.layouts[side];
    host.replaceChildren(layout.nodes.length > 0
      ? draw(side, layout, inside, chosen, (node) => goTo(side, node)) : element("p", { class: "empty" }, "No nodes on this side."));
  }
  scalePictures();
  for (const side of SIDES) {
    const first = byId(side).querySelector(".chosen") ?? byId(side).querySelector(".node:not(.around)");
    if (first) {
      const box = first.querySelector("rect");
      const scale = shown.scale;
      byId(side).scrollTo(
        (Number(box.getAttribute("x")) + Number(box.getAttribute("width")) / 2) * scale - byId(side).clientWidth / 2,
        Number(box.getAttribute("y")) * scale - 90,
      );
    }
  }
}

/** Gives both pictures one scale at which labels are readable; the rest is reached by scrolling. */
function scalePictures() {
  const fits = SIDES.map((side) => {
    const host = byId(side);
    const { width, height } = shown.layouts[side];
    return Math.min((host.clientWidth - 4) / Math.max(1, width), (host.clientHeight - 4) / Math.max(1, height));
  });
  shown.scale = Math.min(SCALES[1], Math.max(SCALES[0], Math.min(...fits))) * shown.zoom;
  for (const side of SIDES) {
    const picture = byId(side).querySelector("svg");
    if (picture) {
      picture.setAttribute("width", Math.ceil(shown.layouts[side].width * shown.scale));
      picture.setAttribute("height", Math.ceil(shown.layouts[side].height * shown.scale));
    }
  }
}

function zoomBy(factor) {
  shown.zoom = Math.min(3, Math.max(0.2, shown.zoom * factor));
  scalePictures();
}

/** Scrolls one picture as far as the other. */
function follow(host, other) {
  const share = (each) => each.scrollTop / Math.max(1, each.scrollHeight - each.clientHeight);
  if (Math.abs(share(host) - share(other)) > 0.02) {
    other.scrollTop = share(host) * (other.scrollHeight - other.clientHeight);
  }
}

function twinOf({ side, node }) {
  return node < 0 ? -1 : data.graphs[side].twin[node];
}

/** Chooses a node: in the picture if it is drawn there, else by showing its change, else by showing its surroundings. */
function goTo(side, node) {
  if (!shown.nodes[side].includes(node)) {
    const region = regionOf[side].get(node);
    if (region) {
      showChange(...region);
    } else {
      showSurroundings(side, node);
    }
  }
  shown.chosen = { side, node };
  byId("details").hidden = false;
  drawPictures();
  showDetails(side, node);
}
