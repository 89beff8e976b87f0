#!/usr/bin/env bash
# PYTHON SCRIPT [ARGUMENT...]: runs a parity script, or says why it cannot and skips (77).
set -euo pipefail
python=$1 script=$2
shift 2
if [[ ! -x $python ]]; then
  echo "skipped: no $python; ./dev setup check makes it"
  exit 77
fi
count=()
[[ $script != wire_parity.py ]] || count=(--count "$([[ ${TINKER_PARITY:-} == full ]] && echo 200 || echo 40)")
exec "$python" "$(dirname "$0")/$script" "${count[@]}" "$@"
