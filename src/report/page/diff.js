// One held-out prompt's answers at two evaluations, compared word by word.

const MOST_WORDS = 2000;

/** Edits that make `a` of `b`'s words: [kind, word] with kind "same", "old" or "new", by the longest common subsequence. */
function wordDiff(a, b) {
  const left = a.split(/(\s+)/).slice(0, MOST_WORDS), right = b.split(/(\s+)/).slice(0, MOST_WORDS);
  const width = right.length + 1;
  const lengths = new Uint16Array((left.length + 1) * width);
  for (let i = left.length - 1; i >= 0; --i) {
    for (let j = right.length - 1; j >= 0; --j) {
      lengths[i * width + j] = left[i] === right[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const edits = [];
  let i = 0, j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) { edits.push(["same", left[i++]]); ++j; }
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) edits.push(["old", left[i++]]);
    else edits.push(["new", right[j++]]);
  }
  while (i < left.length) edits.push(["old", left[i++]]);
  while (j < right.length) edits.push(["new", right[j++]]);
  return edits;
}

class Diff {
  constructor(container, page) {
    this.container = container;
    this.page = page;
    const select = (label) => element("select", {"aria-label": label, onchange: () => this.drawDiff()});
    this.prompt = select("held-out prompt");
    this.before = select("earlier evaluation");
    this.after = select("later evaluation");
    this.sample = select("sample");
    this.text = element("div", {class: "columns"});
  }

  draw() {
    const run = this.page.runs.find((one) => one.validation.length > 1);
    byId("diff").hidden = !run;
    if (!run) return;
    this.files = run.validation;
    const options = (list, text) => list.map((value, i) => element("option", {value: i}, text(value)));
    const fill = (select, choices, first) => {  // what was chosen before stays chosen
      const before = select.value;
      select.replaceChildren(...choices);
      select.value = before || String(first);
      if (select.value === "") select.value = String(first);
    };
    const wasLast = this.after.selectedIndex === this.after.options.length - 1;
    fill(this.prompt, options(this.files[0].groups, (group) => shown(group.prompt).slice(0, 80)), 0);
    fill(this.before, options(this.files, (file) => "step " + file.step), 0);
    fill(this.after, options(this.files, (file) => "step " + file.step), 0);
    fill(this.sample, options(this.files[0].groups[0].samples, (sample) => "sample " + sample.sample), 0);
    if (wasLast) this.after.value = String(this.files.length - 1);
    this.container.replaceChildren(element("div", {class: "tools"}, this.prompt, this.before, "→", this.after, this.sample), this.text);
    this.drawDiff();
  }

  drawDiff() {
    const find = (select) => this.files[Number(select.value)].groups[Number(this.prompt.value)];
    const [before, after] = [find(this.before), find(this.after)];
    const one = before && before.samples[Number(this.sample.value)], two = after && after.samples[Number(this.sample.value)];
    if (!one || !two) return this.text.replaceChildren(element("p", {}, "One of the evaluations lacks this sample."));
    const edits = wordDiff(one.response, two.response);
    const side = (kind, sample) => element("div", {class: "card"}, element("p", {}, element("b", {class: "score"}, number(sample.score)), " ", shown(sample.reason || "")),
      element("pre", {class: "text", dir: "auto"}, ...edits.filter(([each]) => each === "same" || each === kind).map(([each, word]) => each === "same" ? shown(word) : element("mark", {class: kind}, shown(word)))));
    this.text.replaceChildren(side("old", one), side("new", two));
  }
}
