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

/** @param {string} title @param {Array<[string, string]>} facts */
function tipText(title, facts) {
  const rows = facts.flatMap(([name, value]) => [el("dt", "", name), el("dd", "", value)]);
  return el("div", "", el("b", "", title), el("dl", "", ...rows));
}

/**
 * The page's one tooltip: beside the mouse and inside the window, or gone.
 * @param {MouseEvent} [event]
 * @param {Node} [content]
 * @param {Array<{top: number, bottom: number}>} [keep]  what it may not cover; the first that leaves room counts
 */
function showTip(event, content, keep = []) {
  const tip = byId("tip");
  tip.hidden = !event || !content;
  if (!event || !content) return;
  tip.replaceChildren(content);
  const { width, height } = tip.getBoundingClientRect();
  const view = document.documentElement;
  const beside =
    event.clientX + 16 + width < view.clientWidth ? event.clientX + 16 : event.clientX - 16 - width;
  const below =
    event.clientY + 16 + height < view.clientHeight ? event.clientY + 16 : event.clientY - 16 - height;
  tip.style.left = `${Math.max(Math.min(beside, view.clientWidth - width - 4), 4)}px`;
  const apart = keep
    .flatMap(({ top, bottom }) => [bottom + 6, top - 6 - height])
    .find((y) => y >= 4 && y + height < view.clientHeight);
  tip.style.top = `${apart === undefined ? Math.max(below, 4) : apart}px`;
}
