"""The five steps of scripts/gpu/first_contact: what each runs, within how many seconds, most telling first."""
import csv
import json
import re

import benchmarks
import correctness
import parts

COUNTERS = ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "smsp__issue_active.avg.pct_of_peak_sustained_active", "smsp__inst_executed.sum",
            "lts__t_sectors_op_read_lookup_miss.sum", "sm__warps_active.avg.pct_of_peak_sustained_active",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"]


def device(session):
    """The machine: a clock or a power limit below the usual explains figures below the usual."""
    query = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,memory.total,ecc.mode.current"
    code, output, _ = session.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], 30)
    line = output.strip().splitlines()[0] if code == 0 and output.strip() else output.strip()[-300:]
    session.note("device", code == 0, line, device=line.split(",")[0])
    code, output, _ = session.run([session.programs.train, "--version"], 30)
    session.note("program", code == 0, " ".join(output.split())[:300])


def probe(session):
    code, output, _ = session.run([session.programs.probe], 60)
    found = [line for line in output.splitlines() if line.startswith('{"')]
    if code != 0 or not found:
        return session.note("probe", False, f"exit code {code}: {output[-400:]}")
    figures = json.loads(found[-1])
    session.note("probe: chain of overlapping kernels", figures["chain_wrong"] == 0,
                 f"{figures['chain_wrong']} of {figures['chain_values']} values wrong", **figures)
    session.note("probe: shared memory of a captured kernel", figures["graph_keeps_shared_memory"],
                 "a graph keeps what its kernel was captured with" if figures["graph_keeps_shared_memory"] else
                 "a graph fails once the kernel's limit is lowered")
    sizes = [int(key[4:-9]) for key in figures if re.fullmatch(r"rows\d+_tb_per_s", key)]
    session.note("probe: rows against tiles", None, "; ".join(
        f"rows of {size} bytes: {figures[f'rows{size}_tb_per_s']:.2f} TB/s, in tiles {figures[f'tiles{size}_tb_per_s']:.2f}"
        for size in sizes), worst=min(figures[f"rows{size}_tb_per_s"] / figures[f"tiles{size}_tb_per_s"] for size in sizes))


def overlap(session):
    """What it gains that a kernel begins before the one before it has ended."""
    arguments = ["--shape", "8b", "--format", "int4", "--kv", "bf16", "--batch", "1,64", "--context", "512"]
    shown = {}
    for on in ("1", "0"):
        plain = session.env
        session.env = {**plain, "QRL_CUDA_OVERLAP": on}
        shown[on], error = session.figures_of("ticks", *arguments)
        session.env = plain
        if shown[on] is None:
            return session.note("overlapping kernels", False, error)
    gains = {batch: shown["0"][f"context512_batch{batch}_us"] / shown["1"][f"context512_batch{batch}_us"] - 1
             for batch in (1, 64)}
    session.note("overlapping kernels", None, "; ".join(f"batch {batch}: {gain:+.1%} speed" for batch, gain in gains.items()),
                 gain=gains[1])


def long_context(session):
    figures, error = session.figures_of("attention", "--shape", "8b", "--format", "bf16", "--batch", "1", "--context", "32768")
    if figures is None:
        return session.note("attention of 32,768 positions", False, error)
    session.note("attention of 32,768 positions", None, f"{figures['batch1_us']:.0f} us, "
                 f"{figures['batch1_share_of_read']:.0%} of reading", **figures)


def candidates(session):
    """Times the ways of a bf16 matmul and shows the table to commit."""
    code, output, _ = session.run([session.programs.bench, "products", "--shape", "8b", "--candidates"], 120)
    session.note("bf16 candidates", code == 0, "table to commit:\n" + output.strip() if code == 0 else output[-300:])


def counters(session, name, kernel, skip, count, arguments, node=False):
    command = ["ncu", "--clock-control", "none", "--metrics", ",".join(COUNTERS), "--csv", "--print-units", "base",
               *(["--graph-profiling", "node"] if node else []), "-k", f"regex:{kernel}", "-s", skip, "-c", count,
               session.programs.bench, *arguments]
    code, output, _ = session.run(command, 90)
    lines = output.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if code != 0 or begin is None:
        return session.note(f"counters: {name}", None if code == 127 else False, f"exit code {code}: {output[-300:]}")
    values = {}
    for row in csv.DictReader(lines[begin:]):
        if row.get("Metric Name") in COUNTERS:
            values.setdefault(row["Metric Name"], []).append(float(row["Metric Value"].replace(",", "")))
    mean = {metric: sum(found) / len(found) for metric, found in values.items()}
    session.note(f"counters: {name}", None,
                 f"{mean['gpu__time_duration.sum'] * 1e-3:.1f} us, {mean['dram__bytes_read.sum'] * 1e-6:.0f} MB read, memory "
                 f"{mean['dram__throughput.avg.pct_of_peak_sustained_elapsed']:.0f}%, issue "
                 f"{mean['smsp__issue_active.avg.pct_of_peak_sustained_active']:.0f}%", **mean)


def counters_of_kernels(session):
    fp8 = "fp8_e4m3 channel_token"
    for name, *rest in (
            ("int4 GEMM, 1 row", "streamed_kernel", 60, 4, ["products", "--shape", "8b", "--format", "int4", "--rows", "1"]),
            ("fp8 GEMM, 1 row", "streamed_kernel|device_kernel", 20, 4, ["products", "--shape", "8b", "--format", fp8, "--rows", "1"]),
            ("attention, 64 x 2,048", "attention_kernel", 20, 3,
             ["attention", "--shape", "8b", "--format", "bf16", "--batch", "64", "--context", "2048"]),
            ("row kernels of a tick", "norm|swiglu|rope|join", 200, 12,
             ["ticks", "--shape", "8b", "--format", fp8, "--kv", "fp8_e4m3", "--batch", "1", "--context", "512"])):
        counters(session, name, *rest, node=name.startswith("row"))


# Step: title, seconds, parts in their order. The seconds add up to 24 minutes.
STEPS = {
    1: ("Does it compute", 290, {"device": device, "libraries": correctness.check_libraries, "probe": probe,
                                 "operations": parts.PARTS["operations"],
                                 "learner": parts.PARTS["learner"]}),
    2: ("Is it the same each time", 320,
        {name: parts.PARTS[name] for name in ("resume", "adapters", "bitwise", "sanitizer")}),
    3: ("Where it stands", 420, {"bench-products": benchmarks.bench_products, "bench-attention": benchmarks.bench_attention,
                                 "overlap": overlap, "long-context": long_context, "candidates": candidates,
                                 "bench-ticks": parts.PARTS["bench-ticks"]}),
    4: ("Why", 200, {"counters": counters_of_kernels}),
    5: ("The learner", 210, {"bench-learner": benchmarks.bench_learner, "quickstart": parts.PARTS["quickstart"]}),
}
