// What one can do with a drawing: move, zoom, choose.

const LARGEST = 4;

class GraphView extends GraphDrawing {
  /** `onSelect` is told the node that was clicked, or -1. */
  constructor(canvas, graph, changedColor, onSelect) {
    super(canvas, graph, changedColor);
    this.onSelect = onSelect;
    this.frames = [];
    this.fitted = true;
    this.listen();
  }

  listen() {
    const { canvas } = this;
    new ResizeObserver(() => this.resize()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.readColors();
      this.ask();
    });
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      held = { x: event.offsetX, y: event.offsetY, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held !== null) {
        const [dx, dy] = [event.offsetX - held.x, event.offsetY - held.y];
        if (held.moved || Math.hypot(dx, dy) > 3) {
          held = { x: event.offsetX, y: event.offsetY, moved: true };
          this.moveBy(dx, dy);
        }
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held !== null && !held.moved) {
        this.onSelect(this.nodeAt(event.offsetX, event.offsetY));
      }
      held = null;
    });
    canvas.addEventListener("pointercancel", () => {
      held = null;
    });
    canvas.addEventListener("wheel", (event) => {
      if (event.ctrlKey || document.activeElement === canvas) {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
      }
    }, { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(2, event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  onKey(event) {
    const step = 80;
    const actions = {
      ArrowLeft: () => this.moveBy(step, 0),
      ArrowRight: () => this.moveBy(-step, 0),
      ArrowUp: () => this.moveBy(0, step),
      ArrowDown: () => this.moveBy(0, -step),
      "+": () => this.zoom(1.4),
      "=": () => this.zoom(1.4),
      "-": () => this.zoom(1 / 1.4),
      0: () => this.fit(),
      Enter: () => this.onSelect(this.middle()),
      Escape: () => this.onSelect(-1),
    };
    if (actions[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      actions[event.key]();
    }
  }

  resize() {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.ratio = ratio;
    if (this.fitted) {
      this.fit();
    } else {
      this.ask();
    }
  }

  /** Shows some nodes, or all. */
  fit(nodes = null) {
    let [left, top, right, bottom] = [0, 0, this.right, this.bottom];
    if (nodes !== null && nodes.length > 0) {
      [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
      for (const node of nodes) {
        left = Math.min(left, this.x[node]);
        top = Math.min(top, this.y[node]);
        right = Math.max(right, this.x[node] + this.width[node]);
        bottom = Math.max(bottom, this.y[node] + this.height);
      }
    }
    const margin = 24;
    const [width, height] = [this.canvas.clientWidth - 2 * margin, this.canvas.clientHeight - 2 * margin];
    this.scale = Math.max(1e-4, Math.min(1.25, width / (right - left), height / (bottom - top)));
    this.left = (left + right) / 2 - this.canvas.clientWidth / 2 / this.scale;
    this.top = (top + bottom) / 2 - this.canvas.clientHeight / 2 / this.scale;
    this.fitted = nodes === null;
    this.ask();
  }

  moveBy(dx, dy) {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
    this.fitted = false;
    this.ask();
  }

  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const smallest = Math.min(1, this.canvas.clientWidth / this.right, this.canvas.clientHeight / this.bottom) / 4;
    const scale = Math.min(LARGEST, Math.max(smallest, this.scale * factor));
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
    this.fitted = false;
    this.ask();
  }

  /** Brings a node into the middle, so near that it can be read. */
  show(node) {
    this.selected = node;
    if (node >= 0) {
      this.scale = Math.max(this.scale, NAMES_FROM);
      this.left = this.x[node] + this.width[node] / 2 - this.canvas.clientWidth / 2 / this.scale;
      this.top = this.y[node] + this.height / 2 - this.canvas.clientHeight / 2 / this.scale;
      this.fitted = false;
    }
    this.ask();
  }

  nodeAt(x, y) {
    const [px, py] = [x / this.scale + this.left, y / this.scale + this.top];
    const slack = Math.max(0, 4 / this.scale - 4); // far away, boxes are smaller than a finger
    let [best, nearest] = [-1, Infinity];
    for (let i = 0; i < this.count; i += 1) {
      const dx = Math.max(this.x[i] - px, 0, px - this.x[i] - this.width[i]);
      const dy = Math.max(this.y[i] - py, 0, py - this.y[i] - this.height);
      if (Math.max(dx, dy) <= slack && dx + dy < nearest) {
        [best, nearest] = [i, dx + dy];
      }
    }
    return best;
  }

  /** The node nearest to the middle. */
  middle() {
    const px = this.left + this.canvas.clientWidth / 2 / this.scale;
    const py = this.top + this.canvas.clientHeight / 2 / this.scale;
    let [best, nearest] = [-1, Infinity];
    for (let i = 0; i < this.count; i += 1) {
      const distance = Math.hypot(this.x[i] + this.width[i] / 2 - px, this.y[i] + this.height / 2 - py);
      if (distance < nearest) {
        [best, nearest] = [i, distance];
      }
    }
    return best;
  }

  ask() {
    if (!this.asked) {
      this.asked = true;
      requestAnimationFrame(() => {
        this.asked = false;
        const start = performance.now();
        this.draw();
        this.frames.push(performance.now() - start);
        if (this.frames.length > 600) {
          this.frames.shift();
        }
      });
    }
  }
}
