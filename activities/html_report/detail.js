// One task beside the table: issues, answer, trajectory.

class TaskDetail {
  constructor(root, rows, results, table) {
    Object.assign(this, { root, rows, results, table });
  }

  show(number, attempt) {
    const row = this.rows[number];
    const task = data(`t${number}`);
    if (!row || !task) return this.hide();
    const fresh = this.number !== number;
    this.number = number;
    this.table.select(number);
    const attempts = task.attempts || [];
    const chosen = Math.min(attempt || 0, Math.max(attempts.length - 1, 0));
    const parts = [this.bar(row), this.title(row, task), this.notes(row, task), this.tabs(attempts, chosen, task.more_attempts)];
    if (task.question) parts.push(this.block("Question", this.text(task.question, true)));
    if (attempts[chosen]) parts.push(...this.attempt(attempts[chosen], task.truth));
    else if (task.truth) parts.push(this.block("Expected", this.text(task.truth)));
    if (task.content) parts.push(this.block("Record", this.text(task.content, true)));
    this.root.replaceChildren(...parts.filter(Boolean));
    this.root.hidden = false;
    document.body.classList.add("with-detail");
    if (fresh) {
      this.root.scrollTop = 0;
      this.root.focus({ preventScroll: true });
    }
  }

  hide() {
    this.root.hidden = true;
    this.number = undefined;
    document.body.classList.remove("with-detail");
    this.table.select(undefined);
  }

  bar(row) {
    const move = (step, text, key) => {
      const next = this.table.neighbour(row.number, step);
      return el("button", { type: "button", title: `key ${key}`, disabled: next === null, onclick: () => go(next) }, text);
    };
    const file = row.file ? el("a", { href: row.file, target: "_blank" }, "record file") : null;
    return el("div", { class: "toolbar" }, move(-1, "‹ previous", "k"), move(1, "next ›", "j"), file, el("button", { type: "button", class: "close", title: "key Esc", onclick: () => go(null) }, "Close ✕"));
  }

  title(row, task) {
    const facts = [row.category, task.retries ? `${task.retries} retries` : "", row.tokens === null ? "" : `${count(row.tokens)} tokens`, money(row.cost), seconds(row.seconds)].filter(Boolean);
    return el("div", {}, el("h2", {}, row.id || "(no id)"), el("p", {}, el("span", { class: `tag r-${row.result}` }, this.results[row.result]), row.score === null ? "" : ` ${score(row.score)}`, el("span", { class: "dim" }, facts.length ? `  ${facts.join(" · ")}` : "")));
  }

  notes(row, task) {
    const notes = [];
    if (task.problem) notes.push(el("p", { class: "notice bad" }, task.problem));
    else if (row.reason) notes.push(el("p", { class: "notice warn" }, row.reason));
    if (task.cut) notes.push(el("p", { class: "notice" }, `${count(task.cut)} characters are left out here; the record file has everything.`));
    return notes.length ? el("div", {}, notes) : null;
  }

  tabs(attempts, chosen, more) {
    if (attempts.length < 2) return null;
    const tabs = attempts.map((item, at) => el("button", { type: "button", role: "tab", "aria-selected": String(at === chosen), class: at === chosen ? "chosen" : "", onclick: () => this.show(this.number, at) }, `Attempt ${item.number}`));
    return el("div", { class: "tabs", role: "tablist" }, tabs, more ? el("span", { class: "dim" }, `and ${more} more`) : null);
  }

  attempt(item, truth) {
    const parts = [];
    const metrics = Object.entries(item.metrics || {}).map(([name, value]) => `${name} = ${score(value)}`);
    parts.push(el("p", { class: "dim" }, [`status ${item.status}`, ...metrics].join(" · ")));
    if (item.issues) parts.push(this.block("Issues", ...item.issues.map((issue) => el("div", { class: `issue s-${issue.severity}` }, el("b", {}, `${issue.severity} ${issue.code}`), el("span", { class: "dim" }, ` in ${issue.phase}`), this.text(issue.message)))));
    const answer = el("div", {}, el("h4", {}, "Answer"), item.answer ? this.text(item.answer, true) : el("p", { class: "dim" }, "none"));
    parts.push(el("div", { class: "pair" }, answer, truth ? el("div", {}, el("h4", {}, "Expected"), this.text(truth, true)) : null));
    if (item.findings) parts.push(this.block("Findings of analyzers", el("ul", {}, item.findings.map((line) => el("li", {}, line)))));
    const steps = [...(item.head || []).map((step) => this.step(step)), item.omitted ? el("p", { class: "omitted" }, `${count(item.omitted)} steps left out; the record file has them`) : null, ...(item.tail || []).map((step) => this.step(step))];
    if (steps.some(Boolean)) parts.push(this.block("Trajectory", ...steps));
    if (item.timings) parts.push(this.timings(item.timings));
    if (item.artifacts) parts.push(this.block("Artifacts", el("ul", {}, item.artifacts.map((name) => el("li", {}, el("code", {}, name))))));
    if (item.more) parts.push(el("details", {}, el("summary", {}, "Facts of benchmark and harness"), this.text(item.more)));
    return parts;
  }

  step(step) {
    const calls = (step.calls || []).map((call) => el("div", { class: "call" }, el("b", {}, `→ ${call.name || "call"}`), call.text ? this.text(call.text) : null));
    const seen = (step.observations || []).map((item) => el("div", { class: "observation" }, this.text(item.text || "(nothing)")));
    const reasoning = step.reasoning ? el("details", {}, el("summary", {}, "reasoning"), this.text(step.reasoning)) : null;
    const head = el("div", { class: "step-head" }, el("b", {}, `${step.number} ${step.source}`), el("span", { class: "dim" }, (step.facts || []).join(" · ")));
    return el("div", { class: `step from-${step.source}` }, head, reasoning, step.text ? this.text(step.text) : null, calls, seen);
  }

  timings(timings) {
    const entries = Object.entries(timings);
    const most = Math.max(...entries.map(([, value]) => value), 1e-9);
    const rows = entries.map(([phase, value]) => el("div", { class: "row" }, el("span", { class: "name" }, phase), bar(value / most, "value"), el("span", { class: "num" }, seconds(value))));
    return this.block("Time by phase", el("div", { class: "chart three" }, rows));
  }

  block(title, ...children) {
    return el("div", { class: "block" }, el("h3", {}, title), ...children);
  }

  text(text, copy) {
    const pre = el("pre", {}, text);
    if (!copy || !navigator.clipboard) return pre;
    const button = el("button", { type: "button", class: "copy", onclick: () => navigator.clipboard.writeText(text).then(() => { button.textContent = "copied"; }, () => { button.textContent = "not allowed"; }) }, "copy");
    return el("div", { class: "copyable" }, button, pre);
  }
}
