#!/usr/bin/env bash
# Makes sure that what a make target needs is installed: dependencies.sh build|test|lint|peer
# Installs missing packages where it may (apt, and root or passwordless sudo); else prints the one command that would, and
# fails. DEPS=skip turns it off, for systems without apt or with dependencies of their own.
set -euo pipefail

[ "${DEPS:-}" = skip ] && exit 0
want=(g++ make libeigen3-dev libsimdjson-dev libboost-context-dev libcli11-dev libfmt-dev nlohmann-json3-dev)
case "${1:-build}" in
  build) ;;
  test) want+=(libboost-test-dev) ;;
  lint) want+=(libboost-test-dev clang-format-16 clang-tidy-16 python3) ;;
  peer) want+=(python3-torch libopenblas0-openmp) ;;
  *) echo "dependencies.sh: unknown set '$1': build, test, lint or peer" >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "dependencies: not a Debian or Ubuntu system; install the equivalents of: ${want[*]} and run make with DEPS=skip" >&2
  exit 1
fi
have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${want[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${want[@]}"; do
  grep -qx -- "$package" <<<"$have" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if sudo -n true 2>/dev/null; then
    root=(sudo -n)
  else
    echo "dependencies: missing ${missing[*]}; install them with:" >&2
    echo "  sudo apt-get install -y ${missing[*]}" >&2
    exit 1
  fi
fi
echo "dependencies: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${root[@]}" apt-get update -q && "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -q --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "dependencies: apt-get could not install ${missing[*]} (its last lines are above)" >&2
  exit 1
fi
