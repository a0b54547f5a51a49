// One graph on a canvas, with as much detail as can be read.

const LABELS_FROM = 0.32; // labels below this scale could not be read
const NAMES_FROM = 0.75;
const BOXES_FROM = 0.12; // below it, boxes are plain rectangles and lines are straight
const MOST_ASIDE = 160;

class GraphDrawing {
  constructor(canvas, graph, changedColor) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.graph = graph;
    this.changedColor = changedColor;
    this.selected = -1;
    this.found = new Set();
    this.count = graph.x.length;
    this.x = Float32Array.from(graph.x);
    this.y = Float32Array.from(graph.y);
    this.width = Float32Array.from(graph.width);
    this.height = graph.height;
    this.users = Array.from({ length: this.count }, () => []);
    const sources = [];
    const targets = [];
    graph.operands.forEach((parts, node) => {
      for (const part of new Set(parts)) {
        if (part >= 0) {
          sources.push(part);
          targets.push(node);
          this.users[part].push(node);
        }
      }
    });
    this.sources = Int32Array.from(sources);
    this.targets = Int32Array.from(targets);
    this.hideCrowds();
    this.right = 1;
    this.bottom = 1;
    for (let i = 0; i < this.count; i += 1) {
      this.right = Math.max(this.right, this.x[i] + this.width[i]);
      this.bottom = Math.max(this.bottom, this.y[i] + this.height);
    }
    this.scale = 1;
    this.left = 0;
    this.top = 0;
    this.readColors();
  }

  /** Lines to all that use a thing, or all that a thing uses, would hide everything else: they are drawn for a chosen node alone. */
  hideCrowds() {
    const { graph } = this;
    const isHub = this.users.map((using, node) => using.length > (graph.operands[node].length === 0 ? graph.hub : graph.crowd));
    const isCrowd = graph.operands.map((parts) => parts.length > graph.crowd);
    this.hidden = this.sources.map((from, i) => (isHub[from] || isCrowd[this.targets[i]] ? 1 : 0));
    this.stubs = new Uint8Array(this.count); // 1: above the box, 2: below it
    this.hidden.forEach((hidden, i) => {
      if (hidden) {
        this.stubs[this.targets[i]] |= 1;
        this.stubs[this.sources[i]] |= 2;
      }
    });
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    const color = (variable) => style.getPropertyValue(`--${variable}`).trim();
    const pair = (variable) => [color(variable), color(`${variable}-edge`)];
    this.colors = {
      page: color("page"), text: color("text"), quiet: color("quiet"), wire: color("wire"), chosen: color("chosen"), found: color("found"),
    };
    this.fills = [pair("same"), pair(this.changedColor), pair("input")];
  }

  /** 0 kept, 1 changed, 2 an input or output. */
  styleOf(node) {
    const kind = this.graph.kind[node];
    return kind === 1 || kind === 2 ? 2 : this.graph.changed[node];
  }

  draw() {
    const { context, canvas, scale, ratio } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colors.page;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const whole = scale * ratio;
    context.setTransform(whole, 0, 0, whole, -this.left * whole, -this.top * whole);
    const view = { left: this.left, top: this.top, right: this.left + canvas.clientWidth / scale, bottom: this.top + canvas.clientHeight / scale };
    const [visible, styles] = this.visibleNodes(view);
    this.drawWires(view, visible);
    if (scale >= BOXES_FROM) {
      this.drawBoxes(styles);
    } else {
      this.drawSpots(styles);
    }
    this.drawMarks(visible);
    if (scale >= LABELS_FROM) {
      this.drawLabels(visible);
    }
  }

  visibleNodes(view) {
    const visible = [];
    const styles = [[], [], []];
    for (let i = 0; i < this.count; i += 1) {
      if (this.isSeen(i, view)) {
        visible.push(i);
        styles[this.styleOf(i)].push(i);
      }
    }
    return [visible, styles];
  }

  drawWires(view, visible) {
    const { context, scale } = this;
    const curved = scale >= BOXES_FROM;
    const near = new Path2D();
    const far = new Path2D();
    const own = new Path2D();
    for (let i = 0; i < this.sources.length; i += 1) {
      const [from, to] = [this.sources[i], this.targets[i]];
      const mine = from === this.selected || to === this.selected;
      const columns = Math.abs(this.graph.column[from] - this.graph.column[to]);
      if (mine) {
        this.addWire(own, from, to, true, columns > 0);
      } else if (this.hidden[i]) {
        continue;
      } else if (columns === 0 ? this.isNear(from, to, view) : curved ? this.isSeen(from, view) || this.isSeen(to, view) : columns === 1) {
        this.addWire(columns > 0 ? far : near, from, to, curved, columns > 0);
      }
    }
    if (scale >= LABELS_FROM) {
      visible.forEach((node) => this.addStubs(near, node));
    }
    context.strokeStyle = this.colors.wire;
    context.lineWidth = Math.max(1.2, 0.6 / scale);
    context.globalAlpha = scale >= LABELS_FROM ? 0.9 : curved ? 0.6 : 0.45;
    context.stroke(near);
    context.globalAlpha = curved ? 0.35 : 0.06;
    context.stroke(far);
    context.globalAlpha = 1;
    context.strokeStyle = this.colors.chosen;
    context.lineWidth = Math.max(2, 1.5 / scale);
    context.stroke(own);
  }

  isSeen(node, view) {
    const [x, y] = [this.x[node], this.y[node]];
    return x < view.right && y < view.bottom && x + this.width[node] > view.left && y + this.height > view.top;
  }

  /** The ends of lines that are not drawn. */
  addStubs(path, node) {
    if (this.stubs[node] & 1) {
      path.moveTo(this.x[node] + 12, this.y[node] - 10);
      path.lineTo(this.x[node] + 12, this.y[node]);
    }
    if (this.stubs[node] & 2) {
      path.moveTo(this.x[node] + this.width[node] - 12, this.y[node] + this.height);
      path.lineTo(this.x[node] + this.width[node] - 12, this.y[node] + this.height + 10);
    }
  }

  /** Whether a line may be seen. */
  isNear(from, to, view) {
    const slack = 2 * MOST_ASIDE;
    return Math.min(this.x[from], this.x[to]) < view.right + slack && Math.max(this.x[from], this.x[to]) > view.left - slack
      && Math.min(this.y[from], this.y[to]) < view.bottom && Math.max(this.y[from], this.y[to]) + this.height > view.top;
  }

  /** A line from the bottom of a box to the top of another; a long one keeps aside of the boxes in between. */
  addWire(path, from, to, curved, across) {
    const x1 = this.x[from] + this.width[from] / 2;
    const y1 = this.y[from] + this.height;
    const x2 = this.x[to] + this.width[to] / 2;
    const y2 = this.y[to];
    const along = y2 - y1;
    path.moveTo(x1, y1);
    if (!curved) {
      path.lineTo(x2, y2);
    } else if (across || along <= 0) {
      const middle = (x1 + x2) / 2;
      path.bezierCurveTo(x1, y1 + 40, middle, y1 + 40, middle, (y1 + y2) / 2);
      path.bezierCurveTo(middle, y2 - 40, x2, y2 - 40, x2, y2);
    } else if (along > 100) {
      const outer = Math.max(x1 + this.width[from] / 2, x2 + this.width[to] / 2) + Math.min(MOST_ASIDE, 20 + along / 12);
      const bend = Math.min(90, along / 2);
      path.bezierCurveTo(x1, y1 + 30, outer, y1 + 10, outer, y1 + bend);
      path.lineTo(outer, y2 - bend);
      path.bezierCurveTo(outer, y2 - 10, x2, y2 - 30, x2, y2);
    } else {
      path.bezierCurveTo(x1, y1 + along / 2, x2, y2 - along / 2, x2, y2);
    }
  }

  drawBoxes(styles) {
    const { context, scale } = this;
    const corner = scale >= LABELS_FROM ? 6 : 0;
    styles.forEach((nodes, style) => {
      context.beginPath();
      for (const node of nodes) {
        if (corner) {
          context.roundRect(this.x[node], this.y[node], this.width[node], this.height, this.graph.kind[node] === 0 ? corner : 16);
        } else {
          context.rect(this.x[node], this.y[node], this.width[node], this.height);
        }
      }
      [context.fillStyle, context.strokeStyle] = this.fills[style];
      context.lineWidth = style === 1 ? 1.8 : 1;
      context.fill();
      context.stroke();
    });
  }

  /** Nodes from far away: rectangles of at least a dot, in the strong colors; what changed on top. */
  drawSpots(styles) {
    const { context } = this;
    const least = 1.6 / this.scale;
    for (const style of [0, 2, 1]) {
      context.fillStyle = this.fills[style][1];
      for (const node of styles[style]) {
        context.fillRect(this.x[node], this.y[node], Math.max(this.width[node], least), Math.max(this.height, least));
      }
    }
  }

  drawMarks(visible) {
    const { context, scale } = this;
    const mark = (node, color) => {
      const slack = 3 / scale;
      context.strokeStyle = color;
      context.lineWidth = Math.max(2.5, 2.2 / scale);
      context.strokeRect(this.x[node] - slack, this.y[node] - slack, this.width[node] + 2 * slack, this.height + 2 * slack);
    };
    if (this.found.size > 0) {
      visible.filter((node) => this.found.has(node)).forEach((node) => mark(node, this.colors.found));
    }
    if (this.selected >= 0) {
      mark(this.selected, this.colors.chosen);
    }
  }

  drawLabels(visible) {
    const { context, graph } = this;
    const names = this.scale >= NAMES_FROM;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const node of visible) {
      const middle = this.x[node] + this.width[node] / 2;
      const below = names && graph.kind[node] === 0 ? text(graph.name[node]) : "";
      context.fillStyle = this.colors.text;
      context.font = "13px ui-sans-serif, system-ui, sans-serif";
      context.fillText(text(graph.label[node]), middle, this.y[node] + this.height / 2 - (below ? 6 : -0.5), this.width[node] - 10);
      if (below) {
        context.fillStyle = this.colors.quiet;
        context.font = "9px ui-sans-serif, system-ui, sans-serif";
        context.fillText(ending(below, Math.floor(this.width[node] / 5)), middle, this.y[node] + this.height / 2 + 9, this.width[node] - 8);
      }
    }
  }
}

/** The end of a name, which says more than its beginning. */
function ending(value, length) {
  return value.length <= length ? value : `\u2026${value.slice(1 - length)}`;
}
