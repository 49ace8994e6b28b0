#!/usr/bin/env bash
# Everything that needs a GPU, in one call: build, every test suite on the GPU, compute-sanitizer, the chain on
# qwen2.5-0.5b, the PyTorch peer. Results land in $OUT (default results/gpu_check). Goes on after a failure, so that one
# visit to a GPU machine answers every question; ends with `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 2
out=${OUT:-results/gpu_check}
if ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "gpu_check: no GPU answers on this machine (nvidia-smi -L lists none); run it where one does" >&2
  exit 1
fi
mkdir -p "$out"
passed=0 failed=0
check() {  # check NAME COMMAND...: output to $out/NAME.log, its end shown when it fails
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$out/$name.log" 2>&1; then
    passed=$((passed + 1))
    printf 'ok      %-28s %4d s\n' "$name" $((SECONDS - start))
  else
    failed=$((failed + 1))
    printf 'FAILED  %-28s %4d s\n' "$name" $((SECONDS - start))
    tail -n 15 "$out/$name.log"
  fi
}

nvidia-smi >"$out/nvidia-smi.txt"
check build make cuda
check info build/cuda/spillway info
for suite in build/cuda/suites/*; do
  [ -f "$suite" ] && [ -x "$suite" ] && check "test-$(basename "$suite")" test/run.sh "$suite"
done
check large env SPILLWAY_LARGE=1 build/cuda/suites/kernels --run_test=large
if command -v compute-sanitizer >/dev/null; then
  check memcheck compute-sanitizer --tool memcheck --error-exitcode 1 build/cuda/suites/kernels
  check racecheck compute-sanitizer --tool racecheck --error-exitcode 1 build/cuda/suites/kernels
  check initcheck compute-sanitizer --tool initcheck --error-exitcode 1 build/cuda/spillway verify \
    test/fixtures/tiny_qwen2 test/fixtures/tiny_qwen2/golden.safetensors
else
  echo "compute-sanitizer is not on PATH: its checks did not run"
fi
check verify build/cuda/spillway verify test/fixtures/tiny_qwen2 test/fixtures/tiny_qwen2/golden.safetensors
run="gpu_check_$(date -u +%Y%m%dT%H%M%SZ)"
check chain make chain DEVICE=cuda MODEL=qwen2.5-0.5b SEQ=768 STRATEGIES=baseline,checkpoint,offload,hybrid,offload-pageable \
  RUN="$run"
check boundary make oom-boundary DEVICE=cuda MODEL=small MEMORY_CAP_MB=512 RUN="${run}_boundary"
check check make check DEVICE=cuda RUN="$run"
cp "results/$run"/*.json "results/${run}_boundary"/*.json "$out/" 2>/dev/null
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  check peer python3 test/peer/peer.py --model qwen2.5-0.5b --seq 768 --device cuda --warmup 3 --iters 10
else
  echo "no PyTorch with CUDA here: the peer did not run"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
