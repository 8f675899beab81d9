#!/usr/bin/env bash
# Reports that it cannot do the task.
say() { echo "$1" >&"$INTERLOCK_REPORT_FD"; }
say '{"type": "failed", "error": "I do not know this language"}'
