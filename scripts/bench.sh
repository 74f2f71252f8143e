#!/usr/bin/env bash
# Runs the benchmarks: every file of bench/, or those named; the figures of training and decoding go to docs/benchmarks.md. usage: npm run bench [-- NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/setup.sh
node_modules/.bin/tsc -p bench/tsconfig.json
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for file in bench/*.ts; do
    name=$(basename "$file" .ts)
    names+=("$name")
  done
fi
for name in "${names[@]}"; do
  [ -e "build/bench/bench/$name.js" ] || { echo "serac: there is no bench/$name.ts" >&2; exit 2; }
  echo "== $name"
  node --expose-gc "build/bench/bench/$name.js" | tee build/bench/output
  case $name in
    train-step | decode-step | parts | products) node scripts/write-benchmarks.mjs "$name" <build/bench/output ;;  # what docs/benchmarks.md reports
  esac
done
