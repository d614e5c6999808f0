// @ts-check
// Elements are built from text nodes only: no name from a spec is ever parsed as markup.

/**
 * @param {string} tag
 * @param {string|Record<string, any>} [attributes]  a class name, or properties
 * @param {...(Node|string|number|null|undefined|false)} children
 * @returns {HTMLElement}
 */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  if (typeof attributes === "string") node.className = attributes;
  else if (attributes) Object.assign(node, attributes);
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

/** @param {string} id @returns {HTMLElement} */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {number} cycles */
function num(cycles) {
  return Math.round(cycles).toLocaleString("en");
}

/**
 * A table with a header.
 * @param {string[]} columns  a leading ">" aligns right
 * @param {HTMLElement[]} rows
 */
function table(columns, rows) {
  const head = columns.map((c) => el("th", c.startsWith(">") ? "num" : "", c.replace(">", "")));
  return el("table", "", el("thead", "", el("tr", "", ...head)), el("tbody", "", ...rows));
}
