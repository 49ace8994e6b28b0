"""Checks of the tree that no compiler makes: imports point down only, every folder says what it is, every path that a
document names exists, no file outgrows one sitting. Prints a line for each breach; exits 1 when there is one."""
import pathlib
import re
import subprocess
import sys

MAX_LINES = 600
# Which folders a folder's files may include (DESIGN: main -> decision -> model -> {runtime, kernels} -> CUDA).
MAY_INCLUDE = {
    "kernels": ["kernels/", "runtime/hostcuda/"],
    "runtime/hostcuda": ["runtime/hostcuda/"],
    "runtime": ["runtime/error.h", "runtime/cuda.h", "runtime/tensor.h", "runtime/memory/", "runtime/activation/"],
    "data": ["data/", "runtime/error.h"],
    "model": ["model/", "data/", "kernels/", "runtime/", "profiler/range.h"],
    "profiler": ["profiler/", "kernels/", "runtime/"],
    "decision": ["decision/", "model/", "data/", "profiler/", "kernels/", "runtime/"],
    "main.cpp": ["decision/", "runtime/error.h", "runtime/hostcuda/control.h"],
}
# hostcuda is a library under CUDA's own names: only these may know that it is there.
KNOWS_HOSTCUDA = ("kernels/launch.h", "runtime/hostcuda/", "test/", "main.cpp")
TOP_LEVEL = {"Makefile", "README.md", "LICENSE", "main.cpp", "kernels", "model", "runtime", "profiler", "decision", "data",
             "test", "results"}

problems = []
files = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                       check=True).stdout.split("\n")
files = [f for f in files if f and pathlib.Path(f).is_file()]


def room(path):
    for folder in ("runtime/hostcuda", "kernels", "runtime", "data", "model", "profiler", "decision", "main.cpp"):
        if path == folder or path.startswith(folder + "/"):
            return folder
    return None


for path in files:
    top = path.split("/")[0]
    if top not in TOP_LEVEL and not top.startswith("."):
        problems.append(f"{path}: nothing but {', '.join(sorted(TOP_LEVEL))} belongs at the top level")
    if not path.endswith((".h", ".cpp", ".cu", ".py", ".sh", "Makefile", ".md")):
        continue
    text = pathlib.Path(path).read_text(encoding="utf-8")
    lines = text.count("\n")
    if lines > MAX_LINES:
        problems.append(f"{path}: {lines} lines; a file fits in one sitting (at most {MAX_LINES})")
    if path.endswith((".h", ".cpp", ".cu")):
        if not text.startswith("//"):
            problems.append(f"{path}: begin with a comment that says why the file exists")
        for number, included in re.findall(r'^()#include "([^"]+)"', text, re.M):
            allowed = MAY_INCLUDE.get(room(path))
            if allowed and "/" in included and not included.startswith(tuple(allowed)):
                problems.append(f"{path}: includes {included}; {room(path)} may include {', '.join(allowed)}")
            if included.startswith("runtime/hostcuda/") and not path.startswith(KNOWS_HOSTCUDA):
                problems.append(f"{path}: includes {included}; only {', '.join(KNOWS_HOSTCUDA)} may")
    if path.endswith(".md"):
        here = pathlib.Path(path).parent
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not re.match(r"[a-z]+:", target) and not (here / target).exists():
                problems.append(f"{path}: link to {target}, which does not exist")
        # `folder/file.ext` in backticks names a file of the repository, from here or from the root.
        for target in re.findall(r"`([a-z_]+(?:/[\w.]+)*/[\w.]+\.(?:h|cpp|cu|py|sh|md|json))`", text):
            if target.startswith(("results/", "build/")):
                continue
            if not (here / target).exists() and not pathlib.Path(target).exists():
                problems.append(f"{path}: names {target}, which does not exist")

for folder in sorted({f.split("/")[0] for f in files if "/" in f} - {".ci"}):
    if not pathlib.Path(folder, "README.md").exists():
        problems.append(f"{folder}/: no README.md")

print("\n".join(problems))
sys.exit(1 if problems else 0)
