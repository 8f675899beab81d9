#!/usr/bin/env bash
# Is killed in the middle of an edit, as the system does when memory runs out. So is who comes next.
echo "def add(a, b" > calculator.py
sleep 1.2
kill -KILL $$
