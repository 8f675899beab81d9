#!/usr/bin/env bash
# Is killed in the middle of an edit, as the system does when memory runs out. So is who comes next.
echo '{"type": "ready"}' >&"$INTERLOCK_REPORT_FD"
echo "def add(a, b" > calculator.py
kill -KILL $$
