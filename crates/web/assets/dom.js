// Elements from data. Text is always set as text: names of jobs and files may contain markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Keys that begin with "on" are listeners, "class" and "text" are short forms, other keys are attributes. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  set(element, props);
  append(element, children);
  return element;
}

/** An SVG element. */
export function s(tag, props, ...children) {
  const element = document.createElementNS(SVG, tag);
  set(element, props);
  append(element, children);
  return element;
}

function set(element, props) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "text") element.textContent = value;
    else if (key === "style") for (const [name, to] of Object.entries(value)) element.style.setProperty(name, to);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
}

function append(element, children) {
  for (const child of children.flat(3)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(typeof child === "object" ? child : document.createTextNode(String(child)));
  }
}

/** Replaces the content of an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

const PATHS = {
  pause: "M3 2h2.5v8H3zM6.500 2H9v8H6.500z",
  resume: "M3 1.500l7 4.500-7 4.500z",
  early: "M6 1l5 5-5 5-5-5z",
  cross: "M2 2l8 8M10 2l-8 8",
  node: "M6 1l5 9.500H1z",
  join: "M6 2a4 4 0 1 0 .01 0z",
  dot: "M6 3a3 3 0 1 0 .01 0z",
  clock: "M6 1.500a4.500 4.500 0 1 0 .01 0zM6 3.500V6l2 1",
  again: "M9.800 5A4 4 0 1 0 9.500 8M10 2v3H7",
  tick: "M2 6l3 3 5-6",
  flag: "M3 1v10M3 2h6l-1.500 2L9 6H3",
};
const STROKED = new Set(["cross", "clock", "again", "tick", "early", "join", "flag"]);

/** A small drawing that tells states and marks apart without colour. */
export function glyph(name, extra = "") {
  const stroke = STROKED.has(name);
  return s(
    "svg",
    { viewBox: "0 0 12 12", class: `glyph ${extra}`, "aria-hidden": "true" },
    s("path", {
      d: PATHS[name],
      fill: stroke ? "none" : "currentColor",
      stroke: stroke ? "currentColor" : "none",
      "stroke-width": 1.6,
    }),
  );
}

/** Buttons of which one is pressed. */
export function segment(label, options, current, choose) {
  return h(
    "div",
    { class: "seg", role: "group", "aria-label": label },
    options.map(([value, text]) =>
      h("button", { type: "button", "aria-pressed": String(value === current), onclick: () => choose(value) }, text),
    ),
  );
}

/** A colour of the current theme. */
const cache = new Map();
export function color(name) {
  let value = cache.get(name);
  if (value === undefined)
    cache.set(name, (value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()));
  return value;
}
export function forgetColors() {
  cache.clear();
}

const tip = () => document.getElementById("tip");
let anchor = null;

/** Shows a floating text beside a point. */
export function showTip(x, y, children, owner) {
  const box = fill(tip(), children);
  anchor = owner ?? null;
  box.hidden = false;
  const { offsetWidth: w, offsetHeight: height } = box;
  const left = x + 14 + w > innerWidth ? Math.max(4, x - w - 14) : x + 14;
  const top = y + 14 + height > innerHeight ? Math.max(4, y - height - 10) : y + 14;
  box.style.left = `${left}px`;
  box.style.top = `${top}px`;
}
export function hideTip(owner) {
  if (!owner || owner === anchor) tip().hidden = true;
}
