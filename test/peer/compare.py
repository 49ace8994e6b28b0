#!/usr/bin/python3
"""compare.py - step times of Spillway and of eager PyTorch on this CPU, and of our strategies beside our baseline.

Both are run in turn, several times, so that a slow moment of the machine meets both; medians are compared. First the
peer proves on the golden fixture that it is the same model (peer.py). `make bench-peer` runs this; records of our runs
go to results/peer/. Exit status 1 when a ratio is above its limit.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEER = [sys.executable, str(ROOT / "test/peer/peer.py")]
FIXTURE = ROOT / "test/fixtures/tiny_qwen2"
RECORD = "76_host_memory.json"
STRATEGIES = ("baseline", "checkpoint", "offload")
THREADS = 2

# What a round costs is chosen for two cores: a step of the large model takes some ten seconds.
WORKLOADS = {
    "small": dict(rounds=5, warmup=2, iters=5, limit=0.85),
    "qwen2.5-0.5b": dict(rounds=3, warmup=1, iters=2, limit=0.75),
}
STRATEGY_LIMITS = {"checkpoint": 1.30, "offload": 1.15}


def peer_environment():
    """A peer must run at its best: these two would make OpenBLAS use kernels or block sizes of another processor."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    environment.setdefault("OMP_NUM_THREADS", str(THREADS))
    return environment


def run(command, environment=None):
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"compare.py: {' '.join(map(str, command))} failed:\n{done.stderr or done.stdout}")
    return done.stdout


def measure_ours(program, model, seq, workload, name):
    """{strategy: its measured steps in ms} of one run of our benchmark."""
    run([program, "bench", "--pool-threads", str(THREADS), "--model", model, "--seq", str(seq), "--strategies",
         ",".join(STRATEGIES), "--warmup", str(workload["warmup"]), "--iters", str(workload["iters"]), "--repeats", "1",
         "--results", "results/peer", "--run", name])
    record = json.loads((ROOT / "results/peer" / name / RECORD).read_text())
    steps = {}
    for candidate in record["candidates"]:
        if candidate["status"] != "ok":
            sys.exit(f"compare.py: {model}, {candidate['name']}: {candidate['status']}: {candidate.get('error')}")
        steps[candidate["name"]] = [s["step_time_ms"] for s in candidate["samples"]]
    return steps


def measure_peer(model, seq, workload):
    out = run([*PEER, "--model", model, "--seq", str(seq), "--threads", str(THREADS),
               "--warmup", str(workload["warmup"]), "--iters", str(workload["iters"])], peer_environment())
    return json.loads(out)


def report_ratio(label, ratio, limit):
    verdict = "ok" if ratio <= limit else "ABOVE ITS LIMIT"
    print(f"  {label:<28} {ratio:6.3f}   (limit {limit:.2f}: {verdict})")
    return ratio <= limit


def compare(program, model, seq, workload, stamp):
    rounds = workload["rounds"]
    ours, peers = [], []
    for i in range(rounds):
        ours.append(measure_ours(program, model, seq, workload, f"{stamp}-{model}-{i + 1}"))
        peers.append(measure_peer(model, seq, workload))
        mine, other = (statistics.median(t) for t in (ours[-1]["baseline"], peers[-1]["step_time_ms"]))
        print(f"{model}: round {i + 1} of {rounds}: ours {mine:.0f} ms, PyTorch {other:.0f} ms", file=sys.stderr)
    steps = {s: statistics.median(t for one in ours for t in one[s]) for s in STRATEGIES}
    steps["PyTorch eager"] = statistics.median(t for p in peers for t in p["step_time_ms"])
    print(f"\n{model}, seq {seq}, fp32, {THREADS} threads, {rounds} rounds of {workload['iters']} steps; medians; "
          f"PyTorch {peers[0]['torch']}, its peak RSS {max(p['peak_rss_mib'] for p in peers):.0f} MiB")
    for name, ms in steps.items():
        print(f"  {name:<28} {ms:9.1f} ms")
    good = report_ratio("baseline / PyTorch eager", steps["baseline"] / steps["PyTorch eager"], workload["limit"])
    for name, limit in STRATEGY_LIMITS.items():
        # Within a run the strategies share the moment, so the ratio is taken there.
        ratios = [statistics.median(one[name]) / statistics.median(one["baseline"]) for one in ours]
        good &= report_ratio(f"{name} / baseline", statistics.median(ratios), limit)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=WORKLOADS,
                        default=[os.environ["MODEL"]] if os.environ.get("MODEL") in WORKLOADS else list(WORKLOADS))
    parser.add_argument("--seq", type=int, default=int(os.environ.get("SEQ") or 768))
    parser.add_argument("--rounds", type=int, help="instead of the model's own number of rounds")
    parser.add_argument("--program", type=Path, default=ROOT / "build/host/spillway")
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"compare.py: {options.program} does not exist: `make bench-peer` builds it first")
    print(run(PEER + ["--check", str(FIXTURE)], peer_environment()), end="")
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    good = True
    for model in options.models:
        workload = WORKLOADS[model] | ({"rounds": options.rounds} if options.rounds else {})
        good &= compare(options.program, model, options.seq, workload, stamp)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
