#!/usr/bin/env bash
# Lint, formatting and types.
set -uo pipefail
cd "$(dirname "$0")/.."
[ -x node_modules/.bin/biome ] || npm ci --include=dev --no-audit --no-fund --loglevel=error >&2 || exit 1
failed=0
node_modules/.bin/biome check --error-on-warnings . || failed=1
mkdir -p build
node_modules/.bin/tsc -p tsconfig.json --incremental --tsBuildInfoFile build/.lint.tsbuildinfo || failed=1
exit $failed
