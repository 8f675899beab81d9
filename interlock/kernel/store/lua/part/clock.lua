-- The one clock of a script, read once. About numbers: redis.call takes whole numbers up to 2^53
-- exactly. Text made of a number by `..` or tostring is exact up to 14 digits, which is enough for
-- ms and counts; microseconds have 16, so a token is formatted.
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = math.floor(now_us / 1000)
