-- The one clock of a script, read once. About numbers: redis.call takes whole numbers up to 2^53
-- exactly, but a text costs less. So what is written often is made a text first, by %d, which also
-- costs less than `..`, tostring and %.0f. The first two are exact up to 14 digits, which is enough
-- for ms and counts; microseconds have 16.
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = math.floor(now_us / 1000)
local now = string.format('%d', now_ms)
