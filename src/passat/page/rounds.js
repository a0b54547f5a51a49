// The growth of the e-graphs.

const CHARTS = 24;

function startRounds() {
  const section = byId("rounds");
  const runs = data.runs.map((run, at) => ({ ...run, at })).filter((run) => run.rounds.length > 0);
  if (runs.length === 0) {
    section.append(element("p", { class: "empty" }, "No rule matched, so no e-graph grew."));
    return;
  }
  const largest = [...runs].sort((a, b) => b.rounds.at(-1)[0] - a.rounds.at(-1)[0]).slice(0, CHARTS);
  const shown = runs.filter((run) => largest.includes(run));
  section.append(
    element("p", { class: "key" }, element("b", { class: "nodes" }, "\u2014 e-nodes"), "  ", element("b", { class: "classes" }, "- - e-classes")),
    element("div", { class: "charts" }, ...shown.map(chart)),
  );
  if (shown.length < runs.length) {
    section.append(element("p", { class: "quiet" }, `The ${shown.length} largest of ${runs.length}.`));
  }
}

function chart(run) {
  const [width, height, left, bottom, top] = [320, 150, 44, 22, 12];
  const points = [[run.initial, run.initial, 0, 0, 0], ...run.rounds];
  const most = Math.max(...points.map((point) => point[0]));
  const x = (at) => left + ((width - left - 10) * at) / Math.max(1, points.length - 1);
  const y = (value) => height - bottom - ((height - bottom - top) * value) / most;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `e-graph of ${run.pass}, round by round` });
  for (const value of [0, most]) {
    picture.append(
      svg("line", { class: "axis", x1: left, x2: width - 6, y1: y(value), y2: y(value) }),
      svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, value.toLocaleString("en")),
    );
  }
  const every = Math.max(1, Math.ceil(points.length / 10));
  points.forEach((_, at) => {
    if (at % every === 0) {
      picture.append(svg("text", { x: x(at), y: height - 6, "text-anchor": "middle" }, at === 0 ? "start" : String(at)));
    }
  });
  for (const [column, style] of [[0, "nodes"], [1, "classes"]]) {
    picture.append(svg("polyline", { class: style, points: points.map((point, at) => `${x(at)},${y(point[column])}`).join(" ") }));
    points.forEach((point, at) => {
      const told = at === 0 ? `at the start: ${point[0]} e-nodes`
        : `round ${at}: ${point[0]} e-nodes, ${point[1]} e-classes, ${point[2]} matches, ${point[3]} unions, ${seconds(point[4])}`;
      picture.append(svg("circle", { class: style, cx: x(at), cy: y(point[column]), r: 3 }, svg("title", {}, told)));
    });
  }
  const last = run.rounds.at(-1);
  const told = `${count(run.rounds.length, "round")}, ${count(last[0], "e-node")}, ${count(last[1], "e-class", "e-classes")}`;
  const where = run.function === "main" ? "" : ` in ${run.function}`;
  return element(
    "div", { class: "chart" }, element("h3", {}, isolated(`${run.pass}${where}`)), picture,
    element("p", { class: "quiet" }, `${told}; ${run.stopped}`),
    run.first ? null : element("p", { class: "quiet" }, "of another candidate"),
  );
}
