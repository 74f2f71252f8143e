#!/usr/bin/env bash
# Kills training runs (SIGKILL, half of them while a checkpoint is being written) and compares every checkpoint with that of the run that was not killed:
# 20 kills each with 0 and 2 workers, in float32 and bfloat16. SERAC_KILLS and SERAC_KILL_SEED change how many and when.
# usage: bash scripts/kill-resume.sh
set -euo pipefail
cd "$(dirname "$0")/.."
npm run -s build:js
export SERAC_KILLS="${SERAC_KILLS:-20}" SERAC_KILL_SEED="${SERAC_KILL_SEED:-1}"
echo "serac: $SERAC_KILLS kills a run, seed $SERAC_KILL_SEED" >&2
exec node_modules/.bin/vitest run test/train/killResume.test.ts
