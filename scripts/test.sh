#!/usr/bin/env bash
# Sets up, lints, tests. The last line is "N passed, N failed"; lint and set-up count as one each where they fail.
# usage: npm test [-- PATH...] runs only the test files whose path contains PATH
cd "$(dirname "$0")/.." || exit 1
exec </dev/null
extra=0
fail() {
  echo "serac: $1 failed" >&2
  extra=$((extra + 1))
}
bash scripts/setup.sh || fail "set-up"
bash scripts/lint.sh || fail "lint"
results=build/test-results.json
mkdir -p build
rm -f $results
node_modules/.bin/vitest run --reporter=default --reporter=json --outputFile.json=$results "$@"
status=$?
node scripts/count-tests.mjs $results $status $extra
