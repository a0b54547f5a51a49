// All nodes of both models as aligned lists, like the lines in a diff tool, with a search.

const ROWS = 400;
const KEPT_ROWS = 3;
const listing = { rows: [], filter: null, drawn: 0 };

function startListing() {
  listing.rows = alignedRows();
  for (const side of SIDES) {
    const graph = data.graphs[side];
    const nodes = data.head.nodes[side === "before" ? 0 : 1];
    const cut = graph.total > graph.kind.length ? `; the first ${graph.kind.length} of ${graph.total} entries are listed` : "";
    byId(`count-${side}`).textContent = `${side === "before" ? "Before" : "After"}: ${count(nodes, "node")}${cut}`;
  }
  byId("search").addEventListener("input", (event) => searchFor(event.target.value));
  byId("more-rows").addEventListener("click", () => drawRows());
  byId("all-rows").addEventListener("change", () => searchFor(byId("search").value));
  searchFor("");
}

/** Pairs of nodes [before, after], -1 for no node; counterparts share a row if their order allows it. */
function alignedRows() {
  const { before, after } = data.graphs;
  const pairs = after.twin.flatMap((twin, node) => (twin >= 0 ? [[twin, node]] : []));
  const rows = [];
  let [one, other] = [0, 0];
  for (const [before_, after_] of [...longestIncreasing(pairs), [before.kind.length, after.kind.length]]) {
    while (one < before_ || other < after_) {
      rows.push([one < before_ ? one : -1, other < after_ ? other : -1]);
      one += one < before_ ? 1 : 0;
      other += other < after_ ? 1 : 0;
    }
    if (before_ < before.kind.length) {
      rows.push([before_, after_]);
      [one, other] = [before_ + 1, after_ + 1];
    }
  }
  return rows;
}

/** The longest subsequence, in the order of the second numbers, with increasing first numbers. */
function longestIncreasing(pairs) {
  const ends = [];
  const previous = [];
  pairs.forEach(([value], at) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[ends[middle]][0] < value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    previous[at] = low > 0 ? ends[low - 1] : -1;
    ends[low] = at;
  });
  const found = [];
  for (let at = ends.length > 0 ? ends.at(-1) : -1; at >= 0; at = previous[at]) {
    found.push(pairs[at]);
  }
  return found.reverse();
}

function isChanged([one, other]) {
  const { before, after } = data.graphs;
  return one < 0 || other < 0 || before.twin[one] !== other || before.state[one] !== 0 || after.state[other] !== 0;
}

/** Lists the rows that contain a text in the operator, the name or an output. */
function searchFor(wanted) {
  const query = wanted.trim().toLowerCase();
  const matches = Object.fromEntries(SIDES.map((side) => {
    const graph = data.graphs[side];
    const found = new Set();
    graph.kind.forEach((_, node) => {
      if (query && [graph.label[node], graph.name[node], ...graph.outputs[node]].some((number) => text(number).toLowerCase().includes(query))) {
        found.add(node);
      }
    });
    return [side, found];
  }));
  byId("matches").textContent = query ? `${matches.before.size} before, ${matches.after.size} after` : "";
  showRows(query ? ([one, other]) => matches.before.has(one) || matches.after.has(other) : null, matches);
}

/** Marks and lists the nodes that a rule made. */
function showRule(rule) {
  const { rule: rules } = data.graphs.after;
  const nodes = new Set(rules.flatMap((number, node) => (text(number) === rule ? [node] : [])));
  const places = data.regions.flatMap((group) => group.instances.filter((each) => each.rules.includes(rule)));
  const before = new Set(places.flatMap((each) => each.before));
  places.forEach((each) => each.after.forEach((node) => nodes.add(node)));
  byId("search").value = "";
  byId("matches").textContent = `${rule}: ${count(before.size, "node")} before, ${nodes.size} after`;
  showRows(([one, other]) => before.has(one) || nodes.has(other), { before: new Set(), after: new Set() });
  byId("listing").scrollIntoView();
}

function showRows(filter, matches) {
  const rows = filter === null ? listing.rows : listing.rows.filter(filter);
  listing.matches = matches;
  listing.shown = filter === null && !byId("all-rows").checked ? folded(rows) : rows;
  listing.drawn = 0;
  byId("rows").replaceChildren();
  drawRows();
}

/** Rows with runs of unchanged rows folded into their number. */
function folded(rows) {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (isChanged(row)) {
      near.fill(1, Math.max(0, at - KEPT_ROWS), at + KEPT_ROWS + 1);
    }
  });
  const found = [];
  rows.forEach((row, at) => {
    if (near[at]) {
      found.push(row);
    } else if (typeof found.at(-1) === "number") {
      found[found.length - 1] += 1;
    } else {
      found.push(1);
    }
  });
  return found;
}

function drawRows() {
  const part = listing.shown.slice(listing.drawn, listing.drawn + ROWS);
  listing.drawn += part.length;
  byId("rows").append(...part.map((row) => (typeof row === "number"
    ? element("tr", { class: "fold" }, element("td", { colspan: "2" }, `${count(row, "unchanged row")}`))
    : element("tr", {}, rowCell("before", row[0]), rowCell("after", row[1])))));
  const left = listing.shown.length - listing.drawn;
  byId("more-rows").hidden = left === 0;
  byId("more-rows").textContent = `${Math.min(left, ROWS)} more of ${left}`;
}

function rowCell(side, node) {
  if (node < 0) {
    return element("td", { class: "none" });
  }
  const graph = data.graphs[side];
  const label = text(graph.label[node]);
  const name = text(graph.name[node]);
  const state = graph.kind[node] === 0 ? STATES[side][graph.state[node]] : "input";
  return element(
    "td", { class: `${state}${listing.matches[side].has(node) ? " found" : ""}` },
    element("button", { type: "button", class: "link", click: () => {
      goTo(side, node);
      byId("changes").scrollIntoView();
    } }, element("b", {}, isolated(label)), " ", element("span", { class: "quiet data" }, name === label ? "" : name)),
  );
}
