// What `npx eslint` checks: the dashboard's scripts and these tests.

import js from "@eslint/js";

const names = (...all) => Object.fromEntries(all.map((name) => [name, "readonly"]));
const BROWSER = names(
  "addEventListener",
  "clearTimeout",
  "console",
  "document",
  "dispatchEvent",
  "EventSource",
  "fetch",
  "getComputedStyle",
  "globalThis",
  "HashChangeEvent",
  "history",
  "innerWidth",
  "innerHeight",
  "localStorage",
  "location",
  "matchMedia",
  "Node",
  "performance",
  "requestAnimationFrame",
  "ResizeObserver",
  "setInterval",
  "setTimeout",
  "TextDecoder",
  "URLSearchParams",
  "devicePixelRatio",
  "Path2D",
  "clearInterval",
  "cancelAnimationFrame",
  "URL",
  "AbortController",
);
const rules = {
  eqeqeq: "error",
  "prefer-const": "error",
  "no-var": "error",
  "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
};

export default [
  js.configs.recommended,
  { files: ["**/assets/*.js"], languageOptions: { globals: BROWSER, sourceType: "module" }, rules },
  {
    files: ["**/*.mjs"],
    languageOptions: { globals: { ...BROWSER, ...names("process", "giveway", "window") }, sourceType: "module" },
    rules,
  },
];
