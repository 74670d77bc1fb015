"""Whether memory stays within its plan over many steps of uneven answers: the rows of scripts/gpu/check --part steps."""
import dataclasses

import figures

GRAPHS_MIB = 256  # of the plan
WARM = 5  # steps after which memory may no longer grow
MAX_GROWTH = 0.02
# Without the segments that grow: what the user would have set, under the name that LibTorch reads first.
FIXED_SEGMENTS = {"PYTORCH_ALLOC_CONF": "expandable_segments:False"}


def said(shown, _):
    steps = shown["steps"]
    last, most = steps[-1], max(step["gpu_gib"] for step in steps)
    return (f"{len(steps)} steps, the last {last['step_s']:.2f} s; {last['graphs']} graphs of {last['graph_mib']:.0f} MiB, "
            f"{last['graph_share']:.1%} of decode ticks by graph; GPU {steps[0]['gpu_gib']:.2f} -> {last['gpu_gib']:.2f} GiB, at most {most:.2f}; "
            f"host at most {steps[0]['host_gib']:.2f} -> {last['host_gib']:.2f} GiB; each step: "
            + ", ".join(f"{step['gpu_gib']:.2f}" for step in steps))


def wrong_with(shown):
    """What grows, or takes more than its plan."""
    steps, found = shown["steps"], []
    if (graphs := max(step["graph_mib"] for step in steps)) > GRAPHS_MIB:
        found.append(f"graphs take {graphs:.0f} MiB, planned {GRAPHS_MIB}")
    for name in ("gpu_gib", "host_gib"):
        before = max(step[name] for step in steps[:WARM])
        if (most := max(step[name] for step in steps)) > before * (1 + MAX_GROWTH):
            found.append(f"{name} grows from {before:.2f} to {most:.2f} after {WARM} steps")
    return "; ".join(found)


def uneven(rounds, limit_s, **more):
    """Steps of SmolLM2's shape with random weights, each answer's length drawn from 1 to 256."""
    figure = figures.answers("smollm2-135m", figures.FP8, figures.E4M3)
    command = [*figure.command, "--shortest", 1]
    command[command.index("--rounds") + 1] = rounds
    return dataclasses.replace(figure, command=command, said=said, limit_s=limit_s, watches_memory=False, **more)


def rows():
    """All rows by name, in their order."""
    name = "steps SmolLM2-135M, fp8, 1,024 answers of 1 to 256 tokens"
    return {name: uneven(24, 60, holds=wrong_with), f"{name}, segments that cannot grow": uneven(6, 20, variables=FIXED_SEGMENTS)}
