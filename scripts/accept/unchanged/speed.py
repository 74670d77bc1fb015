"""Speed of this tree's program beside the base's: benchmarks in pairs, one program directly after the other."""
import json
import statistics
import subprocess

from runner import THREADS, Failed, environment

PAIRS = 9
GOAL = 0.97  # median of the pairs' ratios
SETTINGS = ("--rounds", "1", "--json", "--set", f"trainer.threads={THREADS}")

# Name -> arguments, the key of the result, whether more is faster. bench's own default model, 86m.
BENCHMARKS = {
    "decode, 1 sequence": (("decode", "--batch", "1", "--prompt", "64", "--new", "96"), "decode_tokens_per_s", True),
    "decode, 64 sequences": (("decode", "--batch", "64", "--prompt", "64", "--new", "32"), "decode_tokens_per_s", True),
    "learner": (("learner", "--prompts", "4", "--n", "4", "--prompt", "64", "--new", "64"), "learner_s", False),
    "step": (("step", "--prompts", "4", "--n", "4", "--prompt", "64", "--new", "32"), "step_s", False),
}


def bench_command(side):
    """The side's benchmarks: build/qrl-bench where there is one, else qrl-train bench."""
    program = side.build / "qrl-bench"
    return [str(program)] if program.exists() else [str(side.program), "bench"]


def measure(side, arguments):
    """The JSON object of one run's last line."""
    command = [*bench_command(side), *arguments, *SETTINGS]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode != 0:
        raise Failed(f"exit code {done.returncode} of {' '.join(command)}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(base, head, say):
    """Prints a row a benchmark; whether all reach the goal. Each pair's order reverses the previous order."""
    fast_enough = True
    for name, (arguments, key, more_is_faster) in BENCHMARKS.items():
        ratios, values = [], {base.name: [], head.name: []}
        for pair in range(PAIRS):
            for side in (base, head) if pair % 2 == 0 else (head, base):
                values[side.name].append(measure(side, arguments)[key])
            before, after = values[base.name][-1], values[head.name][-1]
            ratios.append(after / before if more_is_faster else before / after)
        ratio = statistics.median(ratios)
        fast_enough = fast_enough and ratio >= GOAL
        medians = [statistics.median(values[side.name]) for side in (base, head)]
        say(f"{name}: {ratio:.3f} of the base's speed ({min(ratios):.3f} to {max(ratios):.3f}; {key} {medians[0]:.4g} -> "
            f"{medians[1]:.4g})" + ("" if ratio >= GOAL else f"; SLOWER than {GOAL}"))
    return fast_enough
