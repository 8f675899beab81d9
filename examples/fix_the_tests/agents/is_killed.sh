#!/usr/bin/env bash
# Is killed in the middle of an edit, as the system does when memory runs out. Every try ends so.
echo '{"type": "ready"}' >&"$INTERLOCK_REPORT_FD"
echo "def add(a, b" > calculator.py
kill -KILL $$
