// Elements are made from names and text nodes only: nothing of the data is ever parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function el(name, props, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function bar(share, kind) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "bar");
  const rect = document.createElementNS(SVG, "rect");
  rect.setAttribute("class", kind);
  rect.setAttribute("y", "3");
  rect.setAttribute("height", "10");
  rect.setAttribute("width", `${Math.max(0, Math.min(1, share)) * 100}%`);
  svg.append(rect);
  return svg;
}

function data(id) {
  const node = document.getElementById(id);
  return node ? JSON.parse(node.textContent) : null;
}

const integer = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function count(value) {
  return value === null || value === undefined ? "" : integer.format(value);
}

function score(value) {
  if (value === null || value === undefined) return "";
  if (value === true || value === false) return String(value);
  return Number.isInteger(value) ? String(value) : Math.abs(value) < 0.001 || Math.abs(value) >= 1e6 ? value.toPrecision(4) : value.toFixed(4).replace(/0+$/, "");
}

function money(value) {
  return value === null || value === undefined ? "" : value >= 1 ? `$${value.toFixed(2)}` : `$${Number(value.toPrecision(3))}`;
}

function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60 ? `${minutes} min ${Math.floor(value % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
