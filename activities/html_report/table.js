// The task table: search, filters, sorting, a page at a time.

class TaskTable {
  constructor(root, rows, results, open) {
    this.rows = rows;
    this.results = results;
    this.open = open;
    this.shown = rows;
    this.sort = { key: "number", down: false };
    this.page = 0;
    this.size = 100;
    this.filter = { text: "", deep: false, result: "", category: null, code: "" };
    this.columns = this.usedColumns();
    this.build(root);
    this.apply();
  }

  usedColumns() {
    const all = [
      ["number", "#", (row) => count(row.number + 1), true],
      ["id", "Task", (row) => el("a", { href: `#task=${row.number + 1}`, class: "id" }, row.id || "(no id)"), false],
      ["category", "Category", (row) => el("span", { class: "category", title: row.category }, row.category), false],
      ["result", "Result", (row) => el("span", { class: `tag r-${row.result}` }, this.results[row.result]), false],
      ["score", "Score", (row) => score(row.score), true],
      ["attempts", "Attempts", (row) => count(row.attempts), true],
      ["codes", "Issues", (row) => this.issueCell(row), false],
      ["steps", "Steps", (row) => count(row.steps), true],
      ["tokens", "Tokens", (row) => count(row.tokens), true],
      ["cost", "Cost", (row) => money(row.cost), true],
      ["seconds", "Time", (row) => seconds(row.seconds), true],
      ["retries", "Retries", (row) => count(row.retries), true],
    ];
    const always = new Set(["number", "id", "result"]);
    const says = (value) => (Array.isArray(value) ? value.length > 0 : value !== null && value !== "" && value !== 0);
    return all.filter(([key]) => always.has(key) || (key === "attempts" ? this.rows.some((row) => row.attempts > 1) : this.rows.some((row) => says(row[key]))));
  }

  issueCell(row) {
    const codes = row.codes.map((code) => el("span", { class: `code s-${row.severity}` }, code));
    return el("span", { class: "codes", title: row.reason }, codes);
  }

  build(root) {
    this.search = el("input", { type: "search", placeholder: "Search id, category, issue, answer  ( / )", "aria-label": "search", oninput: () => this.later() });
    this.deep = el("input", { type: "checkbox", onchange: () => this.read() });
    const options = (pairs) => pairs.map(([value, text]) => el("option", { value }, text));
    const results = Object.entries(this.results).filter(([name]) => this.rows.some((row) => row.result === name));
    this.result = el("select", { "aria-label": "result", onchange: () => this.read() }, options([["", "All results"], ...results]));
    const categories = [...new Set(this.rows.map((row) => row.category))].sort();
    this.category = el("select", { "aria-label": "category", onchange: () => this.read() }, options([["all", "All categories"], ...categories.map((name) => [`=${name}`, name || "(none)"])]));
    const codes = [...new Set(this.rows.flatMap((row) => row.codes))].sort();
    this.code = el("select", { "aria-label": "issue", onchange: () => this.read() }, options([["", "All issues"], ...codes.map((name) => [name, name])]));
    this.reset = el("button", { type: "button", class: "quiet", onclick: () => this.set({}) }, "Reset");
    const filters = [this.result, categories.length > 1 ? this.category : null, codes.length ? this.code : null];
    const label = el("label", { class: "check" }, this.deep, "also in texts");
    this.count = el("p", { class: "dim", role: "status" });
    this.head = el("tr");
    this.body = el("tbody");
    this.pager = el("div", { class: "pager" });
    root.append(
      el("div", { class: "filters" }, this.search, label, filters, this.reset),
      this.count,
      el("div", { class: "scroll" }, el("table", { class: "tasks" }, el("thead", {}, this.head), this.body)),
      this.pager,
    );
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !String(window.getSelection())) this.open(Number(row.dataset.number));
    });
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read(), 120);
  }

  set(filter) {
    this.search.value = filter.text || "";
    this.deep.checked = Boolean(filter.deep);
    this.result.value = filter.result || "";
    this.category.value = filter.category === undefined || filter.category === null ? "all" : `=${filter.category}`;
    this.code.value = filter.code || "";
    this.read();
  }

  read() {
    this.filter = {
      text: this.search.value.trim().toLowerCase(),
      deep: this.deep.checked,
      result: this.result.value,
      category: this.category.value.startsWith("=") ? this.category.value.slice(1) : null,
      code: this.code.value,
    };
    this.page = 0;
    this.apply();
  }

  matches(row) {
    const { text, deep, result, category, code } = this.filter;
    if (result && row.result !== result) return false;
    if (category !== null && row.category !== category) return false;
    if (code && !row.codes.includes(code)) return false;
    if (!text || row.haystack.includes(text)) return true;
    if (!deep) return false;
    // The embedded JSON as it stands, so that nothing has to be parsed: search for what the text became there.
    const node = document.getElementById(`t${row.number}`);
    return Boolean(node) && node.textContent.toLowerCase().includes(this.needle);
  }

  apply() {
    const escapes = { "<": "\\u003c", ">": "\\u003e", "&": "\\u0026" };
    this.needle = JSON.stringify(this.filter.text).slice(1, -1).replace(/[<>&]/g, (found) => escapes[found]);
    const { key, down } = this.sort;
    const sign = down ? -1 : 1;
    const value = (row) => (key === "codes" ? row.codes.join(" ") : key === "result" ? this.results[row.result] : row[key]);
    const empty = (item) => item === null || item === undefined || item === "";
    this.shown = this.rows.filter((row) => this.matches(row));
    this.shown.sort((one, two) => {
      const a = value(one), b = value(two);
      if (empty(a) || empty(b)) return empty(a) - empty(b) || one.number - two.number; // what is not known comes last
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
      return sign * order || one.number - two.number;
    });
    this.render();
  }

  render() {
    const total = this.shown.length;
    const pages = Math.max(1, Math.ceil(total / this.size));
    this.page = Math.min(this.page, pages - 1);
    const first = this.page * this.size;
    const visible = this.shown.slice(first, first + this.size);
    this.count.textContent = `${count(total)} of ${count(this.rows.length)} tasks`;
    this.head.replaceChildren(...this.columns.map(([key, name, , numeric]) => this.headCell(key, name, numeric)));
    this.body.replaceChildren(...visible.map((row) => this.bodyRow(row)));
    const go = (page, text) => el("button", { type: "button", disabled: page < 0 || page >= pages || page === this.page, onclick: () => { this.page = page; this.render(); } }, text);
    this.pager.replaceChildren(...(pages > 1 ? [go(0, "« first"), go(this.page - 1, "‹ previous"), el("span", {}, `page ${this.page + 1} of ${pages}`), go(this.page + 1, "next ›"), go(pages - 1, "last »")] : []));
  }

  headCell(key, name, numeric) {
    const active = this.sort.key === key;
    const press = () => {
      this.sort = { key, down: active && !this.sort.down };
      this.apply();
    };
    const arrow = active ? (this.sort.down ? " ▾" : " ▴") : "";
    return el("th", { class: numeric ? "num" : "", "aria-sort": active ? (this.sort.down ? "descending" : "ascending") : "none" }, el("button", { type: "button", onclick: press }, name + arrow));
  }

  bodyRow(row) {
    const cells = this.columns.map(([, , show, numeric]) => el("td", { class: numeric ? "num" : "" }, show(row)));
    return el("tr", { "data-number": row.number, class: row.number === this.selected ? "selected" : "" }, cells);
  }

  select(number) {
    this.selected = number;
    for (const row of this.body.children) row.classList.toggle("selected", Number(row.dataset.number) === number);
  }

  neighbour(number, step) {
    const at = this.shown.findIndex((row) => row.number === number);
    const next = this.shown[at + step];
    if (next === undefined || at < 0) return null;
    const page = Math.floor((at + step) / this.size);
    if (page !== this.page) {
      this.page = page;
      this.render();
    }
    return next.number;
  }
}
