#!/usr/bin/env bash
# Begins, and is killed from outside, as the system does when memory runs out.
echo "half of the work" > half.txt
sleep 2
kill -KILL $$
