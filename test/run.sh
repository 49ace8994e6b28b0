#!/usr/bin/env bash
# Runs test programs one after another and sums up: run.sh PROGRAM... ends with `N passed, N failed`.
# A program that crashes counts as one more failure than it reported; the output of one that fails is shown in full.
set -u
passed=0 failed=0
report=$(mktemp) output=$(mktemp)
trap 'rm -f "$report" "$output"' EXIT
count() { local n; n=$(sed -n "s/.*<TestSuite name=\"spillway\"[^>]* $1=\"\([0-9]*\)\".*/\1/p" "$report" | head -n 1); echo "${n:-0}"; }

for program in "$@"; do
  : >"$report"
  start=$SECONDS
  SPILLWAY_BIN=${SPILLWAY_BIN:-$(dirname "$(dirname "$program")")/spillway} "$program" --report_level=short --report_format=XML --report_sink="$report" --color_output=no >"$output" 2>&1
  status=$?
  good=$(($(count test_cases_passed) + $(count test_cases_passed_with_warnings)))
  bad=$(($(count test_cases_failed) + $(count test_cases_aborted)))
  if [ "$status" -ne 0 ]; then
    [ "$bad" -gt 0 ] || bad=1
    cat "$output"
  elif [ "$good" -eq 0 ]; then
    bad=1
    echo "$program ran no test"
  fi
  printf '%-44s %4d passed %4d failed   %3d s\n' "$program" "$good" "$bad" $((SECONDS - start))
  passed=$((passed + good)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
