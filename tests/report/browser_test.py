#!/usr/bin/env python3
"""The report's page in a browser: it draws every panel without an error, shows the run's figures, and keeps hostile text in its
place. Runs are made up (made_runs.py), pages are those of the program, the browser is Debian's chromium-headless-shell without
a network.

usage: browser_test.py QRL_TRAIN [--keep DIR]     --keep: pages and screenshots stay there
exit: 0; 1 a fault; 4 there is no browser here
"""
import argparse
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import made_runs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "common"))
import browser  # noqa: E402 (a library beside the commands)

BROWSER = ("chromium-headless-shell", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
           "--virtual-time-budget=5000")
HOSTILE = "</script></pre><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\u202ereversed\u202c <b>bold"
MAX_BYTES = 20 << 20
HANGS_S = 120  # no time that is asserted: what hangs must end


class Dom(html.parser.HTMLParser):
    """What the test asks of a page's final document."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ready, self.title, self.values, self.path = {}, "", "", [], []
        self.feed(text)
        self.facts = dict(pair.split("=") for pair in self.ready.split())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.ready = attributes.get("data-ready", self.ready) if tag == "html" else self.ready
        if tag not in ("meta", "input", "img", "br"):
            self.path.append((tag, attributes.get("id")))
        if tag == "tr" and ("table", "values") in self.path:
            self.values.append([])

    def handle_endtag(self, tag):
        while self.path and self.path.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.path and self.path[-1][0] == "title":
            self.title += data
        if self.path and self.path[-1][0] == "td" and ("table", "values") in self.path:
            self.values[-1].append(data)


class Tester:
    def __init__(self, program, folder):
        self.program, self.folder, self.faults = program, folder, []

    def fault(self, text):
        print(f"FAULT {text}")
        self.faults.append(text)

    def page(self, name, runs, *options):
        """Writes a page of runs; its file."""
        out = self.folder / f"{name}.html"
        done = subprocess.run([self.program, "report", *map(str, runs), "--out", str(out), *options], capture_output=True, text=True)
        if done.returncode != 0:
            self.fault(f"{name}: report ended with {done.returncode}: {done.stderr}")
        elif out.stat().st_size > MAX_BYTES:
            self.fault(f"{name}: {out.stat().st_size} bytes")
        return out

    def open(self, page, fragment=""):
        """The document of a page, checked for errors."""
        done = subprocess.run([*BROWSER, "--dump-dom", page.as_uri() + fragment], capture_output=True, timeout=HANGS_S)
        dom = Dom(done.stdout.decode(errors="replace"))
        if dom.facts.get("errors") != "0":
            self.fault(f"{page.name}: data-ready is {dom.ready!r}")
        print(f"{page.name}: {page.stat().st_size / 1e6:.1f} MB, {dom.ready}")
        return dom

    def shot(self, page, name, size, dark, fragment=""):
        file = self.folder / f"{name}.png"
        subprocess.run([*BROWSER, f"--window-size={size}", f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--screenshot={file}",
                        page.as_uri() + fragment], capture_output=True, timeout=HANGS_S)
        if not file.exists() or file.stat().st_size < 20_000:
            self.fault(f"{name}: the screenshot is empty")

    def expect(self, dom, page, **counts):
        for name, count in counts.items():
            if dom.facts.get(name) != str(count):
                self.fault(f"{page.name}: expected {name}={count}, got {dom.ready!r}")


def check_values(test, page, run):
    """The figures under the cursor are those of metrics.jsonl, in six digits, for every metric; without a cursor the last ones."""
    rows = {row["step"]: row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines())}
    for step in (1, 20, 60, None):
        dom = test.open(page, f"#step={step}" if step else "")
        found = {row[0]: float(row[1]) for row in dom.values if row}
        want = {name: value for name, value in rows[step or 60].items() if name not in ("step", "timing_s/unix") and value is not None}
        if set(found) != set(want):
            test.fault(f"step {step}: #values lacks {sorted(set(want) - set(found))}, has {sorted(set(found) - set(want))} too many")
        for name in set(found) & set(want):
            if abs(found[name] - want[name]) > 1e-6 * abs(want[name]) * 5 + 1e-30:
                test.fault(f"step {step}: {name} is {found[name]}, metrics.jsonl has {want[name]}")


def check_two_runs(test, both):
    """Keys that differ, a table with a column a run, and a legend with each curve's line and last value."""
    with browser.Page(both.as_uri()) as page:
        def expect(what, expression, wanted):
            if (got := page.value(expression)) != wanted:
                test.fault(f"two runs: {what}: expected {wanted!r}, got {got!r}")

        for _ in range(200):
            if page.value("document.documentElement.dataset.ready"):
                break
            time.sleep(0.05)
        text = "[...document.querySelectorAll({!r})].map((one) => one.innerText)"
        expect("keys that differ", text.format("#differences td"), ["trainer.seed", "0", "1"])
        expect("columns", text.format("#values th"), ["metric", "A · quick", "B · other", "unit"])
        last = [json.loads((test.folder / f"runs/{name}/metrics.jsonl").read_text().splitlines()[-1]) for name in ("quick", "other")]
        shown = [f"{row['critic/rewards/mean']:.6g}" for row in last]
        legend = "[...page.charts.drawn[0].box.querySelectorAll('.legend button')]"
        expect("last values", legend + ".map((one) => one.querySelector('.value').innerText).filter((_, i) => i % 2 === 0)", shown)
        expect("what they are", "page.charts.drawn[0].box.querySelector('.legend .at').innerText", "last values, to step 60")
        expect("dashes", legend + ".map((one) => one.querySelector('line').getAttribute('stroke-dasharray'))", ["none", "8 4", "none", "8 4"])
        expect("dashes of curves", "page.charts.drawn[0].chart.series.slice(1).map((one) => (one.dash || []).join(' ') || 'none')", ["none", "8 4", "none", "8 4"])
        page.value("page.setStep(20, true); 0")
        expect("values at a step", "page.charts.drawn[0].box.querySelector('.legend .at').innerText", "step 20")
        page.value("page.setStep(null, true); 0")
        expect("values without a step", "page.charts.drawn[0].box.querySelector('.legend .at').innerText", "last values, to step 60")
        page.value(legend + "[0].click(); 0")
        expect("a hidden curve", "page.charts.drawn[0].chart.series.map((one) => one.show)", [True, False, True, True, True])
        page.value("byId('metric-search').value = 'RHO_P'; byId('metric-search').dispatchEvent(new Event('input')); 0")
        expect("metrics found", text.format("#values td:first-child"), [f"mismatch/rho_p{p:02}" for p in (1, 5, 50, 95, 99)])
        expect("errors", "numErrors", 0)


def check_hostile(test):
    tame = test.open(test.page("tame", [made_runs.make_run(test.folder / "runs/tame/run", 3)]))
    page = test.page("hostile", [made_runs.make_run(test.folder / "runs/hostile/run", 3, response=HOSTILE)])
    hostile = test.open(page)
    if hostile.title != tame.title or hostile.tags != tame.tags:
        test.fault(f"hostile responses changed title or elements: {hostile.title!r}, {hostile.tags} against {tame.tags}")
    if "\u202e" in re.sub(r'<script type="application/json".*?</script>', "", page.read_text(), flags=re.S):
        test.fault("a character that turns the text's direction stands outside of the data")
    made_runs.make_run(test.folder / "runs/large/run", 3, response="x" * (1 << 20) + HOSTILE)
    test.open(test.page("large", [test.folder / "runs/large/run"]))


def check_odd_runs(test):
    runs = test.folder / "runs"
    make = made_runs.make_run
    test.expect(test.open(test.page("nan", [make(runs / "nan", 60, nan_share=0.4)])), runs / "nan", rows=61)
    one = test.page("one", [make(runs / "one", 1)])
    test.expect(test.open(one), one, rows=2)
    empty = make(runs / "empty", 1, rollouts=False)
    (empty / "metrics.jsonl").write_text("")
    (empty / "sft_metrics.jsonl").unlink()
    page = test.page("empty", [empty])
    test.expect(test.open(page), page, panels=0, rows=0, samples=0)
    bare = make(runs / "bare", 60, rollouts=False)
    with open(bare / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"step": 61, "critic/rew')
    page = test.page("bare", [bare])
    test.expect(test.open(page), page, rows=61, samples=0)
    foreign = runs / "foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("nothing")
    done = subprocess.run([test.program, "report", str(foreign), "--out", str(test.folder / "none.html")], capture_output=True, text=True)
    if done.returncode != 2 or "metrics.jsonl" not in done.stderr or (test.folder / "none.html").exists():
        test.fault(f"a foreign folder: exit {done.returncode}, {done.stderr}")


def check_long_runs(test):
    runs = [made_runs.make_run(test.folder / f"runs/long{seed}", 5000, seed) for seed in range(8)]
    page = test.page("long", runs[:1])
    test.expect(test.open(page), page, rows=5001)
    page = test.page("eight", runs)
    test.expect(test.open(page), page, rows=8 * 5001)
    page = test.page("seeds", runs[:3], "--group", "seed")
    test.expect(test.open(page), page, rows=3 * 5001)


class Live:
    """The live page of a folder of runs, in an open browser."""

    def __init__(self, test, runs):
        self.test = test
        self.watch = subprocess.Popen([test.program, "watch", str(runs), "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.page = browser.Page(self.watch.stdout.readline().strip())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.page.close()
        self.watch.kill()
        self.watch.wait()

    def becomes(self, what, expression, wanted):
        """Waits until an expression of JavaScript is what is wanted; a fault where it is not."""
        end = time.monotonic() + HANGS_S
        while (got := self.page.value(expression)) != wanted and time.monotonic() < end:
            time.sleep(0.05)
        if got != wanted:
            self.test.fault(f"live: {what}: expected {wanted!r}, got {got!r}")


def append(file, lines):
    with open(file, "a", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


def check_live(test):
    """The live page follows a run from its cold start on: rows, charts, samples and held-out answers that come while it looks."""
    made = made_runs.make_run(test.folder / "whole", 40)
    run = test.folder / "live/run"
    (run / "rollouts").mkdir(parents=True)
    (run / "validation").mkdir()
    shutil.copy(made / "config.yaml", run)
    cold, steps = ([json.loads(line) for line in (made / name).read_text().splitlines()] for name in ("sft_metrics.jsonl", "metrics.jsonl"))
    (run / "metrics.jsonl").touch()
    append(run / "sft_metrics.jsonl", cold[:5])
    step_choices = "document.querySelectorAll('#samples .tools option').length"
    with Live(test, run.parent) as live:
        live.becomes("panels of a cold start", "document.querySelectorAll('#panels article').length", 2)
        append(run / "sft_metrics.jsonl", cold[5:])
        live.becomes("updates of the cold start", "page.runs[0].sft.steps.length", 40)
        live.becomes("the drawn updates", "page.charts.drawn[0].chart.data[0].length", 40)
        append(run / "metrics.jsonl", steps[:3])
        for step in (1, 2):
            shutil.copy(made / f"rollouts/step_{step}.jsonl", run / "rollouts")
        live.becomes("charts of the first steps", "document.querySelector('#panels article h3')?.innerText.includes('training reward')", True)
        live.becomes("steps with samples", step_choices, 2)
        live.page.value("document.querySelector('#about details').open = true; page.charts.drawn[0].chart.setScale('x', {min: 1.2, max: 1.8}); 0")
        shutil.copy(made / "rollouts/step_3.jsonl", run / "rollouts")
        shutil.copy(made / "validation/step_0.jsonl", run / "validation")
        shutil.copy(made / "validation/step_40.jsonl", run / "validation")
        append(run / "metrics.jsonl", steps[3:])
        live.becomes("rows", "Number(document.documentElement.dataset.rows)", 41)
        live.becomes("rules judged", "document.querySelector('#verdicts p').innerText.includes('rules judged, none broken')", True)
        live.becomes("steps with samples later on", step_choices, 3)
        live.becomes("evaluations to compare", "document.querySelectorAll('#diff [aria-label=\"later evaluation\"] option').length", 2)
        live.becomes("details that stood open", "document.querySelector('#about details').open", True)
        live.becomes("the enlarged part of a chart", "page.charts.drawn[0].chart.scales.x.max", 1.8)
        live.becomes("errors", "numErrors", 0)
        live.watch.kill()
        live.becomes("a word that the server is gone", "document.getElementById('server-says')?.innerText.includes('does not answer')", True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", metavar="QRL_TRAIN")
    parser.add_argument("--keep", metavar="DIR")
    args = parser.parse_args()
    if not browser.is_here():
        print(f"SKIPPED: {browser.why_not()}")
        return 4
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(args.keep).resolve() if args.keep else pathlib.Path(name)
        test = Tester(args.program, folder)
        run = made_runs.make_run(folder / "runs/quick", 60)
        page = test.page("quick", [run])
        check_values(test, page, run)
        both = test.page("both", [run, made_runs.make_run(folder / "runs/other", 60, 1)])
        test.expect(test.open(both), both, rows=122, samples=2 * 40 * 16)
        check_two_runs(test, both)
        check_hostile(test)
        check_odd_runs(test)
        check_long_runs(test)
        check_live(test)
        for dark in (False, True):
            for width in (1280, 390):
                test.shot(both, f"both_{width}_{'dark' if dark else 'light'}", f"{width},1600", dark, "#step=20")
        print("no fault" if not test.faults else f"{len(test.faults)} faults")
        return 1 if test.faults else 0


if __name__ == "__main__":
    sys.exit(main())
