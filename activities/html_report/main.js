// Wires the page: addresses like #task=12, keys, the filters that charts lead to, light and dark.

let go = () => {};

function startTasks(found) {
  const rows = found.rows.map((values, number) => {
    const row = { number };
    found.columns.forEach((name, at) => { row[name] = values[at]; });
    row.haystack = [row.id, row.category, ...row.codes, row.reason, row.answer].join("\n").toLowerCase();
    return row;
  });
  const table = new TaskTable(document.getElementById("tasks-app"), rows, found.results, (number) => go(number));
  const detail = new TaskDetail(document.getElementById("detail"), rows, found.results, table);

  const follow = () => {
    const match = /^#task=(\d+)$/.exec(location.hash);
    if (match) detail.show(Number(match[1]) - 1);
    else if (detail.number !== undefined) detail.hide();
  };
  go = (number) => {
    const target = number === null ? "#tasks" : `#task=${number + 1}`;
    history.replaceState(null, "", target);
    follow();
  };
  window.addEventListener("hashchange", follow);
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape") {
      if (typing) event.target.blur();
      else if (detail.number !== undefined) go(null);
    } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const step = { j: 1, k: -1 }[event.key];
      if (event.key === "/") {
        event.preventDefault();
        table.search.focus();
      } else if (step && detail.number !== undefined) {
        const next = table.neighbour(detail.number, step);
        if (next !== null) go(next);
      }
    }
  });
  const lead = (selector, filter) => {
    for (const node of document.querySelectorAll(selector)) {
      node.addEventListener("click", () => {
        table.set(filter(node));
        document.getElementById("tasks").scrollIntoView({ behavior: "smooth" });
      });
    }
  };
  lead("[data-category]", (node) => ({ category: node.dataset.category }));
  lead("[data-code]", (node) => ({ code: node.dataset.code }));
  lead("[data-result]", (node) => ({ result: node.dataset.result }));
  follow();
}

function startTheme() {
  const root = document.documentElement;
  const remembered = () => {
    try { return localStorage.getItem("agentcompass-theme"); } catch { return null; } // a browser may forbid it for files
  };
  if (remembered()) root.dataset.theme = remembered();
  const button = document.getElementById("theme");
  if (!button) return;
  button.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("agentcompass-theme", root.dataset.theme); } catch { /* only not remembered */ }
  });
}

startTheme();
const found = data("rows");
if (found) startTasks(found);
