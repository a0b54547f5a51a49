"use strict";

// Elements and numbers. All data goes into text nodes: a name is never parsed as HTML.

const data = JSON.parse(document.getElementById("data").textContent);

/** The string with a number in `data.strings`. */
function text(number) {
  return data.strings[number];
}

function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes, listeners (functions) and parts: other elements, or texts. */
function element(tag, attributes = {}, ...parts) {
  return fill(document.createElement(tag), attributes, parts);
}

function svg(tag, attributes = {}, ...parts) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, parts);
}

function fill(made, attributes, parts) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      made.addEventListener(name, value);
    } else {
      made.setAttribute(name, value);
    }
  }
  made.append(...parts.filter((part) => part !== null));
  return made;
}

/** A text of the model, isolated from its surroundings: its direction may differ. */
function isolated(value) {
  return element("bdi", {}, value);
}

/** Listeners of an element of a drawing that works as a button. */
function pressed(action) {
  return {
    click: action,
    keydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        action();
      }
    },
  };
}

function count(value, one, many = `${one}s`) {
  return `${value.toLocaleString("en")} ${value === 1 ? one : many}`;
}

function seconds(value) {
  for (const [unit, size] of [["s", 1], ["ms", 1e-3], ["\u00b5s", 1e-6]]) {
    if (value >= size || unit === "\u00b5s") {
      return `${Number((value / size).toPrecision(3))} ${unit}`;
    }
  }
  return "";
}

function bytes(value) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= size) {
      return `${Number((value / size).toPrecision(3))} ${unit}`;
    }
  }
  return `${value} B`;
}

function cost(value) {
  return data.head.in_seconds ? seconds(value) : String(Number(value.toPrecision(4)));
}

function change(before, after) {
  if (!before || before === after) {
    return "unchanged";
  }
  const percent = (100 * (after - before)) / before;
  return `${percent > 0 ? "+" : ""}${Math.abs(percent) >= 0.5 ? percent.toFixed(0) : percent.toPrecision(1)} %`;
}
