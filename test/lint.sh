#!/usr/bin/env bash
# What can be said of the sources without running them: format, include rules, documents, static analysis.
# Every complaint names its file; the last line counts the checks that found something. The version of the tools is pinned,
# because each formats a little differently.
set -u
cd "$(dirname "$0")/.." || exit 2
mapfile -t sources < <(git ls-files -co --exclude-standard -- '*.h' '*.cpp' '*.cu')
bad=0
check() {  # check NAME COMMAND...: runs it, shows what it says when it fails
  local out
  if out=$("${@:2}" 2>&1); then
    printf '  ok    %s\n' "$1"
  else
    printf '  FAIL  %s\n%s\n' "$1" "$out"
    bad=$((bad + 1))
  fi
}
tidy() {
  printf '%s\n' "${sources[@]}" | grep -E '^(main|runtime/[a-z_]*|runtime/(memory|activation)/.*|model/.*|data/.*|profiler/.*|decision/.*)\.cpp$' |
    xargs -P "$(nproc)" -I{} clang-tidy-16 --quiet {} -- -x c++ -std=c++20 -I. -Iruntime/hostcuda/include \
      -DSPILLWAY_HOST -DSPILLWAY_SERIAL 2>/dev/null
}

check "format (clang-format)" clang-format-16 --dry-run -Werror "${sources[@]}"
check "documents, includes, sizes" python3 test/lint_tree.py
check "static analysis (clang-tidy)" tidy
if [ "$bad" -gt 0 ]; then
  echo "lint: $bad checks failed"
  exit 1
fi
echo "lint: clean"
