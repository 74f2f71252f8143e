#!/usr/bin/env bash
# Runs the fuzz tests of every format with 100,000 cases each. SERAC_FUZZ_CASES and SERAC_FUZZ_SEED change how many and which.
# usage: npm run fuzz [-- NAME...] runs only the files of test/fuzz whose path contains NAME
set -euo pipefail
cd "$(dirname "$0")/.."
export SERAC_FUZZ_CASES="${SERAC_FUZZ_CASES:-100000}" SERAC_FUZZ_SEED="${SERAC_FUZZ_SEED:-1}"
echo "serac: $SERAC_FUZZ_CASES cases a format, seed $SERAC_FUZZ_SEED" >&2
files=()
for name in "$@"; do files+=("test/fuzz/$name"); done
[ ${#files[@]} -gt 0 ] || files=(test/fuzz)
exec node_modules/.bin/vitest run "${files[@]}"
