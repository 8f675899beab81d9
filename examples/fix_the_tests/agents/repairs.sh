#!/usr/bin/env bash
# Does the task: it reads it from stdin, and fixes the one line that is wrong.
set -eu
cat >/dev/null
say() { echo "$1" >&"$INTERLOCK_REPORT_FD"; }
say '{"type": "ready"}'
say '{"type": "tool_started", "tool": "sed", "id": "1"}'
sed -i.bak 's/return a - b/return a + b/' calculator.py && rm calculator.py.bak
say '{"type": "tool_completed", "tool": "sed", "id": "1", "success": true}'
say '{"type": "verify_requested", "summary": "add() subtracted; now it adds"}'
