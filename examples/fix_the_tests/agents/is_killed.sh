#!/usr/bin/env bash
# Kills itself in the middle of an edit, as the system does when memory runs out.
echo '{"type": "ready"}' >&"$INTERLOCK_REPORT_FD"
echo "def add(a, b" > calculator.py
kill -KILL $$
