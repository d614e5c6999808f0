// @ts-check
// Colours come from the style sheet, so that charts follow light and dark with the rest.

const KIND_NAMES = ["MMA", "LDS", "global memory", "wait", "barrier", "scalar", "vector"];
const KIND_VARIABLES = ["--mma", "--lds", "--global", "--wait", "--barrier", "--scalar", "--vector"];
/** @type {Record<string, string>} */
const ROLE_VARIABLES = {
  matrix: "--mma",
  vector: "--vector",
  lds_read: "--lds",
  lds_write: "--lds",
  load: "--global",
  store: "--global",
  wait: "--wait",
  barrier: "--barrier",
};

const FONT_FAMILY = getComputedStyle(document.body).fontFamily;

/** @param {string} name */
function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** @returns {any}  colours by name, and `kinds` by segment colour code */
function palette() {
  const names = [
    "ink",
    "quiet",
    "line",
    "card",
    "band",
    "accent",
    "needs",
    "feeds",
    "race",
    "on-fill",
    "mma",
    "lds",
    "global",
  ];
  /** @type {Record<string, string>} */
  const colours = {};
  for (const name of names) colours[name] = cssColour(`--${name}`);
  return { ...colours, kinds: KIND_VARIABLES.map(cssColour) };
}

/** @param {string} role */
function roleColour(role) {
  return `var(${ROLE_VARIABLES[role] || "--scalar"})`;
}

/** @param {string} hex @param {number} alpha */
function fade(hex, alpha) {
  const value = parseInt(hex.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}
