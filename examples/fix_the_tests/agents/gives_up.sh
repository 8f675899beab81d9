#!/usr/bin/env bash
# Says honestly that it cannot do it.
say() { echo "$1" >&"$INTERLOCK_REPORT_FD"; }
say '{"type": "failed", "error": "I do not know this language"}'
