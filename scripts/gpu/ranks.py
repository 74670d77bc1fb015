"""What one GPU can show of several ranks: the rows of scripts/gpu/check --part ranks."""
import json
import os

import correct
import programs
from programs import ROOT, program

STEPS = 3


def nccl_job(runner):
    """Each case of a communicator of one rank, through the real library."""
    learner = program("test_learner")
    names = correct.names_of(programs.Runner(60, runner.log), [learner, "[ranks]"])
    return correct.cases_job(learner, names, 60)(runner)


def times(folder):
    """Mean seconds of a step's parts that ranks exchange data in, of a run folder's steps after the first."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "critic/score/mean" in line][1:]
    return {part: correct.mean([step[f"timing_s/{part}"] for step in steps]) for part in ("publish", "update_actor")}


def ranks_job(work, zero_stage):
    """Two ranks that share the GPU exchange gradients and weights through host memory. Their rewards are those of one rank."""
    def job(runner):
        found = {}
        for ranks in (1, 2):
            folder = work / f"ranks-{ranks}-{zero_stage}"
            settings = ["trainer.device=cuda", "eval.freq=0", f"trainer.zero_stage={zero_stage if ranks > 1 else 0}"]
            words = correct.small_run(folder, STEPS, settings)
            code, output, _ = runner.run([*words, "--ranks", ranks] if ranks > 1 else words, 60)
            if code != 0:
                return {"holds": False, "what": f"{ranks} ranks: {programs.why(code, output)}"}
            found[ranks] = {**times(folder), "rewards": [row["critic/score/mean"] for row in correct.learning(folder)]}
        distance = correct.mean([(a - b) ** 2 for a, b in zip(found[1]["rewards"], found[2]["rewards"])]) ** 0.5
        shown = "; ".join(f"{ranks} ranks: publish {of['publish'] * 1e3:.1f} ms, update {of['update_actor'] * 1e3:.0f} ms" for ranks, of in found.items())
        return {"holds": len(found[2]["rewards"]) == STEPS and distance <= correct.MAX_CURVE_DISTANCE,
                "what": f"{shown}; rewards of a step differ by {distance:.3f} (at most {correct.MAX_CURVE_DISTANCE})", "figures": found}
    return job


def jobs(work):
    """Name and job."""
    return {"NCCL, a communicator of one rank": nccl_job, "two ranks through host memory": ranks_job(work, 0),
            "two ranks through host memory, moments shared": ranks_job(work, 1)}
